"""What a privacy proof needs from a schema: nothing that follows from it may depend on the records."""

from tacit.data.schema import Schema
from tacit.errors import InputError


def require_public(schema: Schema, *, incomplete_is_public: bool = False) -> None:
    """Refuses a schema with which a private run would reveal more about the records than its noisy releases do.

    `incomplete_is_public` is for embedded data, whose incomplete records are public.
    """
    if schema.drafted:
        raise InputError(
            "the schema says drafted = true: its bounds, categories and sites were read from records, so they reveal "
            "something about them; replace them by public knowledge, and remove that line"
        )
    if schema.missing == "drop" and not incomplete_is_public:
        raise InputError(
            'missing = "drop" would let the number of rows, which is public, depend on the records; write missing = '
            '"zero" or "refuse" in the schema'
        )
    # Rows are checked again where the noise is added. But whether a row is too long depends on the records, and
    # everybody sees that a run was refused: so the schema must make all rows short.
    if not 0 < schema.row_norm <= 1:
        raise InputError(
            f"a private run needs rows of norm at most 1; the schema has row_norm = {schema.row_norm:g}; write 1.0"
        )
