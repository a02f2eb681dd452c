"""Token matching for BERTScore, BERT-TBR and their kin: blocks, kernels, baselines."""
