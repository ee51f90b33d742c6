"""Trains a tiny classifier. Replace the file by your own model."""

from pathlib import Path

import joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

if __name__ == "__main__":
    iris = load_iris()
    kinds = iris.target_names[iris.target]
    classifier = LogisticRegression(max_iter=1000).fit(iris.data, kinds)
    joblib.dump(classifier, Path(__file__).with_name("@NAME@.joblib"))
