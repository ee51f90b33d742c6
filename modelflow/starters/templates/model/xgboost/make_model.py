"""Trains a tiny classifier. Replace the file by your own model."""

from pathlib import Path

import numpy as np
import xgboost

if __name__ == "__main__":
    measures = np.random.default_rng(1).uniform(0, 8, (300, 4)).astype(np.float32)
    kinds = (measures[:, 2] > 2.5).astype(int) + (measures[:, 2] > 5)
    settings = {"objective": "multi:softprob", "num_class": 3, "nthread": 1}
    booster = xgboost.train(settings, xgboost.DMatrix(measures, kinds), 5)
    booster.save_model(Path(__file__).with_name("@NAME@.ubj"))
