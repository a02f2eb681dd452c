"""The word of everyday captions for each of the 1,000 classes of ImageNet (ILSVRC 2012).

A hundred and eighteen breeds are *dog*. Classes that captions hardly name apart share the word of
their kind; those of which no everyday word is sure (trilobite, oil filter) have none. The numbers
are those of the challenge, which every network trained on it uses: 0 is a tench, 999 toilet paper.
"""

from __future__ import annotations

_WORDS = """
fish 0 1 389-397|shark 2-4|stingray 5 6|rooster 7|chicken 8|ostrich 9|eagle 22|vulture 23|owl 24
bird 10-21 80-83 85 86 91-96 127-129 131-143 146|peacock 84|parrot 87-90|duck 97 98|goose 99
swan 100|flamingo 130|pelican 144|penguin 145|lizard 25-29 38-48|frog 30-32|turtle 33-37
alligator 49 50|dinosaur 51|snake 52-68|spider 70-77|insect 300 302-307 311-318|ladybug 301
fly 308|bee 309|ant 310|dragonfly 319 320|butterfly 321-326|kangaroo 104|koala 105|jellyfish 107
coral 108 109 973|shell 112|snail 113-115|crab 118-121 125|lobster 122-124|whale 147 148
seal 149 150|dog 151-268 273-275|wolf 269-272|fox 277-280|cat 281-285|leopard 286-290 293
lion 291|tiger 292|bear 294-297|starfish 327|rabbit 330-332|hamster 333 338|squirrel 335 336
beaver 337|horse 339|zebra 340|pig 341-343|hippo 344|cow 345|buffalo 346 347|goat 350
sheep 348 349|deer 351-353|camel 354|llama 355|otter 356-360|skunk 361|monkey 365-384
elephant 101 385 386|panda 387 388|guitar 402 420 546|ship 403 510 628|airplane 404 895 908
blimp 405|altar 406|ambulance 407|clock 409 530 892|apron 411|trash 412|gun 413 763 764
backpack 414|bakery 415|balloon 417|pen 418 563|railing 421|barn 425|barrel 427 756
wheelbarrow 428|baseball 429|basketball 430|crib 431 516 520|towel 434|bathtub 435
car 436 468 511 627 661 751 817|lighthouse 437|bottle 440 737 898 907 720|glass 441|binder 446
bicycle 444 671 880|bikini 445 638 639|binoculars 447|birdhouse 448|sled 450 537|tie 451 457 906
bonnet 452|bookshelf 453|books 454 624|bow 456|broom 462|bucket 463|train 466 547 705 820
candle 470|cannon 471|canoe 472|sweater 474|mirror 475|carousel 476|box 478 519 709|wheel 479
castle 483|boat 484 554 576 625 780 814 871 914|cello 486|phone 487 528 605 707|chain 488
fence 489 716 912|chest 492|dresser 493|cabinet 495 648|stocking 496|church 497 663|theater 498
knife 499 623|cloak 501|shoe 502 514 630 770 774|mug 504 968|coffeepot 505|keyboard 508 810 878
candy 509|corkscrew 512|trumpet 513|hat 515 439 808|crane 517|helmet 518 560|croquet 522
crutch 523|dam 525|desk 526|computer 527 590|diaper 529|watch 531 826|table 532|dishwasher 534
dock 536 718|dome 538|drum 541 822|dumbbell 543 422|pot 544 469 738|fan 545
television 548 598 851|envelope 549|coffee 550 967|truck 555 569 675 717 803 864 867|flag 557
flute 558|chair 423 559 765|forklift 561|fountain 562|bed 564|pan 567 909|coat 568 869
mask 570 643 691 796|gas 571|cart 573 575 603 690 612|golf 574|gown 578 400 601 689
piano 579 881|greenhouse 580|groceries 582|hammer 587|hamper 588|dryer 589|harp 594
tractor 595 621 866|axe 596|iron 606|pumpkin 607|jeans 608|jeep 609|shirt 610 841|puzzle 611
kimono 614|lamp 619 846|laptop 620 681|lipstick 629|speaker 632|compass 635|mailbox 637|maze 646
microphone 650|microwave 651|uniform 652|van 654 656 734|skirt 655|missile 657|mitten 658
bowl 659 809|camper 660 757|monitor 664 782|motorcycle 665 670|mosque 668|tent 672 915|mouse 673
necklace 679|organ 687|paddle 693|lock 695 507|brush 696|pajamas 697|palace 698|parachute 701
bench 703|parking meter 704|patio 706|pedestal 708|perfume 711|copier 713 742|pillow 721
pirate 724|pitcher 725 899|bag 728 636|plow 730|plunger 731|camera 732 759|pole 733|poncho 735
pool table 736|drill 740|rug 741 539|projector 745|purse 748 893|quilt 750|racket 752
radiator 753|radio 754 482 848|refrigerator 760|remote 761|restaurant 762|salt 773|sarong 775
saxophone 776|scale 778|bus 779 874|scoreboard 781|screwdriver 784|seatbelt 785
sewing machine 786|shield 787|shopping cart 790 791|shovel 792|curtain 794 854 904 905|skis 795
sleeping bag 797|door 799|snorkel 801|snowmobile 802|soap 804|ball 768 805 852 890 722|sock 806
spaceship 812|spatula 813|web 815|stage 819|bridge 821 839 888|stethoscope 823|wall 825
stove 827 766|trolley 829|stretcher 830|couch 831|temple 832|submarine 833|suit 834|sundial 835
sunglasses 836 837|swimsuit 842|swing 843|syringe 845|tank 847|teapot 849|teddy bear 850
throne 857|roof 853 858|toaster 859|shop 424 467 788 860 865|toilet 861|torch 862|totem 863
tray 868|tricycle 870|tripod 872|arch 873|trombone 875|tub 876|umbrella 879|vacuum 882|vase 883
vending machine 886|violin 889|waffle 891|wardrobe 894|sink 896|washer 897|tower 900|wig 903
spoon 910 618|shipwreck 913|comic 917|crossword 918|sign 919|traffic light 920|menu 922
plate 923|guacamole 924|soup 925 926|dessert 927|ice cream 928 929|bread 930|bagel 931
pretzel 932|hamburger 933|hot dog 934|potatoes 935|cabbage 936|broccoli 937|cauliflower 938
squash 939-942|cucumber 943|artichoke 944|pepper 945|mushroom 947 991-997|apple 948
strawberry 949|orange 950|lemon 951|fig 952|pineapple 953|banana 954|fruit 955-957|hay 958
pasta 959|chocolate 960|dough 961|meat 962|pizza 963|pie 964|burrito 965|wine 966
mountain 970 979 980|bubble 971|cliff 972 976|geyser 974|lake 975|beach 977 978
baseball player 981|groom 982|diver 983|field 984|flower 985 986|corn 987 998|acorn 988
toilet paper 999
"""


def _read(table: str) -> dict[int, str]:
    words: dict[int, str] = {}
    for entry in table.replace("\n", "|").split("|"):
        parts = entry.split()
        numbers = [part for part in parts if part[0].isdigit()]
        word = " ".join(part for part in parts if not part[0].isdigit())
        for number in numbers:
            first, _, last = number.partition("-")
            for class_number in range(int(first), int(last or first) + 1):
                words.setdefault(class_number, word)
    return words


IMAGENET_WORDS: dict[int, str] = _read(_WORDS)
"""Class number -> word; classes without a sure word are absent."""
