"""Estimators in the style of scikit-learn. Needs `tacit-learn[sklearn]`.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(2000, 4))
>>> y = np.where(X @ [1.0, 1.0, 0.0, -1.0] + 0.3 * rng.normal(size=2000) > 0, "yes", "no")
>>> model = PrivateFusedLogisticRegression(epsilon=1.0, delta=1e-6, classes=["no", "yes"]).fit(X, y)
>>> model.privacy_.private, model.privacy_.epsilon <= 1.0, model.score(X, y) > 0.8
(True, True, True)
"""

try:
    import sklearn.base  # noqa: F401
except ImportError:
    raise ImportError("tacit.estimators needs scikit-learn 1.6 or newer: pip install 'tacit-learn[sklearn]'") from None

from tacit.estimators.encoder import SchemaEncoder
from tacit.estimators.feature_graphs import inverse_covariance_graph
from tacit.estimators.federated import FederatedClassifier, FederatedRegressor
from tacit.estimators.fused import PrivateFusedLogisticRegression
from tacit.estimators.privacy import Privacy

__all__ = [
    "FederatedClassifier",
    "FederatedRegressor",
    "Privacy",
    "PrivateFusedLogisticRegression",
    "SchemaEncoder",
    "inverse_covariance_graph",
]
