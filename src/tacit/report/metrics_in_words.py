"""How good a model is, in words."""

from __future__ import annotations

from tacit.data import Classes, Label
from tacit.run.metrics import Metrics, Numbers, TwoClasses

_CHANCE = 0.55  # an AUC below this is of little use; about 0.5 is what noise alone gives


def in_words(measured: Metrics, label: Label, private: bool = False) -> list[str]:
    """A few lines for a person; the last ones warn if the model answers one class only, and if a private one ranks
    no better than chance."""
    if isinstance(measured, Numbers):
        explained = "" if measured.r2 is None else f"; R^2 {measured.r2:.3f}"
        return [f"RMSE {measured.rmse:.4g}; mean absolute error {measured.mae:.4g}{explained}"]
    lines = [f"error {measured.error:.4f}; always the most frequent answer: {measured.majority_error:.4f}"]
    if not isinstance(measured, TwoClasses):
        return [*lines, f"log loss {measured.log_loss:.4f}"]
    if measured.auc is not None:
        lines.append(
            f"AUC {measured.auc:.4f} (0.5: no better than chance); average precision {measured.average_precision:.4f} "
            f"({measured.positives / measured.records:.4f} by chance)"
        )
    assert isinstance(label, Classes)
    lines.append(
        f"{measured.positives:,} are {label.positive[0]!r}; {measured.positives_predicted:,} are predicted to be, and "
        f"{measured.true_positives:,} of these are"
    )
    if measured.calibration_error is not None:
        lines.append(
            f"probabilities: predicted and observed shares differ by {measured.calibration_error:.4f} on average; the "
            f"share of {label.positive[0]!r} is {measured.positives / measured.records:.4f}"
        )
    if measured.one_class:
        answer = label.positive[0] if measured.positives_predicted else label.negative[0]
        ranks = "" if measured.auc is None else " Its scores may still rank the records: see the AUC."
        lines.append(
            f"The model answers {answer!r} to every record.{ranks} tacit predict writes the scores; --threshold or "
            "--top K picks records by them."
        )
    if private and measured.auc is not None and measured.auc < _CHANCE:
        share = "" if label.positive_share is not None else "positive_share in the schema, "
        lines.append(
            f"The noise leaves a model that ranks hardly better than chance. What helps: {share}fewer columns, more "
            "records, or members that share the noise (--colluders)."
        )
    return lines
