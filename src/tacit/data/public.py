"""What a privacy proof needs of a schema: nothing that follows from it may depend on the records."""

from tacit.data.columns import Classes
from tacit.data.schema import Schema
from tacit.errors import InputError


def require_public(schema: Schema, *, incomplete_is_public: bool = False) -> None:
    """Refuses a schema with which a private run would tell about the records beside what it releases with noise.

    `incomplete_is_public` is for embedded data, of which everybody knows the incomplete records.
    """
    if not isinstance(schema.label, Classes):
        raise InputError(f"the label {schema.label.column!r} is a number: private training is for classes so far")
    if schema.drafted:
        raise InputError(
            "the schema says drafted = true: its bounds, categories and sites were read off records, which tells about "
            "them; replace them by public knowledge, and take that line out"
        )
    if schema.missing == "drop" and not incomplete_is_public:
        raise InputError(
            'missing = "drop" would let the number of rows, which is public, depend on the records; write missing = '
            '"zero" or "refuse" in the schema'
        )
    # Rows are checked as well, where the noise is added. But whether one row is too long depends on the records, and
    # everybody sees that a run was refused: so the schema has to make all of them short.
    if not 0 < schema.row_norm <= 1:
        raise InputError(
            f"a private run needs rows of norm at most 1; the schema has row_norm = {schema.row_norm:g}; write 1.0"
        )
