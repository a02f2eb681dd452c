"""What people call the 80 object classes of COCO, and phrases that only look like one of them.

Compiled by us from the captions people write and from the classes' definitions; not the list of any
other tool. Plurals are derived (:mod:`captious.text.object_words`).
"""

from __future__ import annotations

_TABLE = """
person: people, man, woman, boy, girl, child, kid, baby, toddler, infant, guy, gentleman, lady,
 adult, teenager, teen, youth, youngster, human, pedestrian, player, batter, catcher, umpire,
 hitter, baseman, outfielder, skier, snowboarder, skateboarder, skater, surfer, rider, cyclist,
 bicyclist, biker, motorcyclist, driver, passenger, worker, officer, policeman, policewoman,
 police man, police woman, cop, fireman, firefighter, soldier, chef, cook, waiter, waitress,
 server, bride, groom, couple, crowd, spectator, athlete, swimmer, fisherman, farmer,
 businessman, businesswoman, student, teacher, tourist, traveler, traveller, customer, shopper,
 vendor, friend, mother, father, mom, dad, son, daughter, brother, sister, husband, wife,
 grandmother, grandfather, family, actor, performer, musician, singer, dancer,
 photographer, jockey, cowboy, sailor, doctor, nurse, hiker, jogger, runner, boarder, bicycle
 rider, bike rider, somebody, someone, male, female, audience, staff, sportsman, tennis player,
 baseball player, soccer player, little league player, horseman, conductor, barber, snow
 boarder, skate boarder, motor cyclist, lad, dude, elderly, preschooler, schoolboy
bicycle: bike, mountain bike, tricycle, cycle, ten speed, push bike
car: automobile, sedan, minivan, van, suv, taxi, cab, taxi cab, hatchback, jeep, convertible,
 limo, limousine, police car, sports car, station wagon, vehicle
motorcycle: motorbike, motor bike, motor cycle, moped, scooter, motor scooter, vespa, dirt bike,
 harley, dirtbike, motorized bike
airplane: plane, aeroplane, air plane, aircraft, jet, jetliner, airliner, jumbo jet, biplane,
 seaplane, fighter jet, passenger plane, passenger jet, propeller plane, jet plane, fighter
 plane, airbus
bus: school bus, double decker, double decker bus, tour bus, city bus, minibus, trolley bus,
 shuttle bus
train: locomotive, steam engine, tram, subway train, trolley, streetcar, caboose, passenger
 train, freight train, train engine, steam train, commuter train, bullet train, monorail,
 railcar, train car, street car, trolley car, railway car, box car, tram car
truck: pickup, pickup truck, pick up truck, fire truck, firetruck, fire engine, semi truck,
 semi, tow truck, dump truck, lorry, food truck, garbage truck, tractor trailer, delivery truck,
 big rig
boat: ship, sailboat, sail boat, canoe, kayak, rowboat, row boat, motorboat, motor boat,
 speedboat, yacht, ferry, gondola, raft, cruise ship, tugboat, tug boat, barge, catamaran,
 dinghy, fishing boat, houseboat, house boat, vessel
traffic light: traffic signal, stop light, stoplight, traffic lamp, signal light, street signal
fire hydrant: hydrant, fire plug
stop sign: stopsign
parking meter: parkingmeter
bench: pew, park bench, wooden bench
bird: pigeon, seagull, gull, parrot, duck, goose, swan, owl, eagle, hawk, chicken, hen, rooster,
 turkey, ostrich, penguin, peacock, flamingo, crow, raven, sparrow, robin, pelican, duckling,
 hummingbird, finch, heron, stork, parakeet, cockatoo, woodpecker, canary, falcon, vulture,
 crane bird, mallard, cardinal, dove, emu, macaw, magpie, blue jay, gosling, chick, sea gull,
 waterfowl, songbird
cat: kitten, kitty, tabby, feline, tom cat, house cat, kitty cat, tabby cat
dog: puppy, pup, doggy, doggie, hound, poodle, retriever, golden retriever, labrador, lab,
 bulldog, terrier, beagle, dalmatian, corgi, chihuahua, pug, dachshund, collie, husky, shepherd
 dog, canine, german shepherd, sheepdog, sheep dog, rottweiler, spaniel, puppy dog, boxer dog,
 schnauzer, greyhound
horse: pony, foal, colt, stallion, mare, bronco, mustang, race horse, racehorse, clydesdale
sheep: lamb, ram, ewe
cow: cattle, calf, bull, ox, steer, longhorn, heifer, dairy cow, bison, buffalo
elephant: elephant calf
bear: polar bear, grizzly, grizzly bear, brown bear, black bear, panda, panda bear, bear cub,
 cub
zebra: zebra foal
giraffe: giraffe calf
backpack: back pack, knapsack, rucksack, book bag, bookbag
umbrella: parasol, sun umbrella, beach umbrella
handbag: purse, hand bag, shoulder bag, tote bag, tote, clutch bag, pocketbook
tie: necktie, neck tie, bow tie, bowtie
suitcase: suit case, luggage, baggage, luggage bag, briefcase, brief case, duffel bag, duffle
 bag
frisbee: flying disc, flying disk, frisbie, frisby, disc, disk
skis: ski
snowboard: snow board
sports ball: ball, soccer ball, tennis ball, football, basketball, volleyball, beach ball, rugby
 ball, soccerball, basket ball, golf ball, bowling ball, cricket ball
kite: parasail
baseball bat: bat, baseballbat, cricket bat
baseball glove: baseball mitt, mitt, catchers mitt, catcher mitt, baseball mit
skateboard: skate board, longboard
surfboard: surf board, bodyboard, body board, boogie board, paddle board, paddleboard
tennis racket: racket, racquet, tennis racquet, tennis raquet, tennis raket
bottle: wine bottle, beer bottle, water bottle, glass bottle, plastic bottle
wine glass: wineglass, glass of wine, glasses of wine, goblet, champagne glass, champagne flute,
 wine goblet
cup: mug, coffee cup, coffee mug, teacup, tea cup, paper cup
fork: dinner fork
knife: pocket knife, steak knife, butcher knife, butter knife, kitchen knife
spoon: tablespoon, teaspoon, wooden spoon
bowl: soup bowl, salad bowl
banana: plantain, banana bunch
apple: red apple, green apple
sandwich: hamburger, burger, cheeseburger, sub sandwich, submarine sandwich, hoagie, panini,
 wrap sandwich, grilled cheese, cheese sandwich, blt
orange: tangerine, clementine, mandarin, mandarin orange, orange slice
broccoli: broccoli floret
carrot: baby carrot, carrot stick
hot dog: hotdog, chili dog, corn dog, frankfurter, hot dog bun
pizza: slice of pizza, pizza pie, pizza slice, pepperoni pizza, cheese pizza
donut: doughnut, dough nut, donut hole
cake: birthday cake, cupcake, cup cake, cheesecake, wedding cake, chocolate cake, layer cake,
 sheet cake, pound cake, coffee cake, shortcake, wedding cup cake
chair: armchair, arm chair, recliner, lawn chair, folding chair, rocking chair, stool, office
 chair, bar stool, beach chair, high chair, wooden chair, deck chair, desk chair, seat, rocker,
 lounge chair
couch: sofa, loveseat, love seat, settee, sofa bed, futon, sectional
potted plant: houseplant, house plant, pot plant, flower pot, flowerpot, potted tree, potted
 flower
bed: bunk bed, twin bed, crib, cot, double bed, canopy bed, mattress, hospital bed, bunkbed
dining table: table, dinner table, kitchen table, coffee table, picnic table, dining room table,
 desk, end table, side table, wooden table, tabletop, table top, breakfast table
toilet: commode, urinal, toilet bowl, toilet seat, lavatory toilet, potty
tv: television, tv set, television set, flat screen, flat screen tv, flatscreen, tv screen, flat
 screen television, tv monitor, television screen, flatscreen tv, televison, monitor, computer
 monitor
laptop: laptop computer, notebook computer, macbook, lap top, lap top computer, netbook,
 computer
mouse: computer mouse, wireless mouse
remote: remote control, tv remote, wii remote, game controller, wii controller, wiimote, video
 game controller, game remote, controller, nintendo wii controller
keyboard: computer keyboard
cell phone: cellphone, mobile phone, smartphone, smart phone, phone, iphone, telephone, cellular
 phone, flip phone, mobile telephone, blackberry phone, cell
microwave: microwave oven, micro wave
oven: stove, stove top, stovetop, stove top oven, range oven, toaster oven, pizza oven, stove
 oven
toaster: bread toaster
sink: washbasin, wash basin, kitchen sink, bathroom sink, basin
refrigerator: fridge, refridgerator, freezer, icebox, frig, refrigerater, mini fridge
book: textbook, novel, cookbook, paperback, notebook, children book
clock: clock tower, clocktower, alarm clock, grandfather clock, wall clock, wristwatch,
 timepiece
vase: flower vase, glass vase, urn
scissors: scissor, shears, pair of scissors
teddy bear: teddy, teddybear, stuffed bear, stuffed animal, stuffed teddy bear, stuffed toy,
 plush bear, stuffed teddy, toy bear, plush toy, stuffed animal toy
hair drier: hair dryer, hairdryer, hairdrier, blow dryer, blowdryer, blow drier
toothbrush: tooth brush, electric toothbrush
"""

CLASSES: dict[str, tuple[str, ...]] = {
    name.strip(): tuple(word.strip() for word in words.split(","))
    for entry in _TABLE.replace("\n ", " ").strip().splitlines()
    for name, _, words in [entry.partition(":")]
}
"""Class -> other words for it."""

ANIMALS = ("bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe")

NOTHING: tuple[str, ...] = tuple(
    word.strip()
    for word in """
couple of, family of, herd of, train station, train track, train yard, train platform, train
stop, train depot, train tunnel,
train bridge, train rail, train line, train crossing, bus stop, bus station, bus depot, bus
shelter, bus lane, bus terminal, boat dock, boat ramp, boat house, bike rack, bike path, bike
lane, bike trail, bicycle rack, bicycle lane, bicycle path, car park, car seat, car door, car
window, car lot, car wash, truck stop, street light, street lamp, home plate, baseball plate,
dinner plate, bird cage, bird bath, bird house, bird feeder, bird nest, cat food, cat tree, cat
bed, dog house, dog bed, dog food, dog bowl, dog park, dog leash, dog collar, dog tag, dog show,
horse racing, horse race, sheep pen, apple tree, apple pie, apple juice, apple computer, apple
laptop, apple logo, banana tree, banana bread, banana split, orange juice, orange tree, carrot
cake, cake pan, cake stand, cake knife, pizza box, pizza cutter, pizza pan, pizza parlor, pizza
shop, pizza place, donut shop, sandwich shop, coffee shop, book shelf, book shelves, bookshelf,
book store, book case, bookcase, clock face, tie dye, tie dyed, table cloth, table lamp, bed
spread, bed frame, bed room, bed sheet, sink drain, oven mitt, oven door, kite string, ski lift,
ski pole, ski slope, ski resort, ski jump, ski lodge, ski boot, ski suit, ski goggle, ski trail,
ski gear, ski run, ski mask, ski hill, ski area, ski jacket, snowboard park, skateboard park,
skate park, skateboard ramp, surf board rack, tennis ball machine, ball game, ball park, ball
field, ball player, baseball game, baseball field, football game, football field, football
player, basketball court, basketball game, basketball player, basketball hoop, volleyball net,
volleyball court, volleyball game, soccer game, soccer field, tennis match, phone booth,
telephone pole, telephone booth, telephone line, phone pole, computer desk, computer table,
computer chair, computer screen, computer mouse pad, mouse pad, mouse trap, cup holder, bottle
opener, wine rack, knife block, bowl cut, super bowl, bowling alley, toilet paper, toilet brush,
toilet tank, toilet lid, toilet paper roll, toilet tissue, fire truck station, fire station,
bear trap, bull dozer, bull ring, bull fight, cow boy hat, cowboy hat, cowboy boot, chef hat,
baby carriage, baby stroller, baby bottle, baby food, baby bed, baby chair, girl scout cookie,
children toy, elephant tusk, remote location, remote area, remote controlled, laptop bag,
laptop case, laptop screen, vase shop, family room, family photo, staff only, model train track,
people mover, semi circle, passenger seat,
driver seat, player bench, orange cone, orange vest, disc golf, disc jockey,
disk jockey, disk drive, cell tower, jet engine, jet ski, jet stream, plane hangar, airplane
hangar, airplane wing, bench press, bench seat, traffic light pole, stop light pole, chair lift,
chairlift, ski chair lift, couch cushion, kitchen cabinet
""".replace("\n", " ").split(",")
)
"""Phrases that begin or end with an object's name and are none."""
