"""How search finds things at present, in words for administrators and operators."""

from collections.abc import Collection, Sequence

from core.store.embeddings import ModelFigures, ModelState

_STATES = {
    ModelState.READING: "is read",
    ModelState.BACKFILLING: "is being made",
    ModelState.VERIFIED: "is complete and read next",
    ModelState.RETIRED: "is not read any more, dropped soon",
    ModelState.DROPPING: "is being dropped",
    ModelState.DROPPED: "is dropped",
}


def search_in_words(figures: Sequence[ModelFigures], asked: Collection[str]) -> list[str]:
    """Return how search goes, then one line for each model that is not simply read and complete.

    Args:
        figures: How far each model is.
        asked: The names of the models that can be asked here; none: likeness is off.
    """
    if not asked:
        return ["Search: by words; embeddings are off"]
    read = next((each for each in figures if each.state is ModelState.READING), None)
    if read is None:
        lines = ["Search: by words; no model has vectors yet"]
    elif read.model.name not in asked:
        lines = [f"Search: by words; {read.model.name} made the vectors and is not listed any more"]
    elif read.trouble:
        lines = [f"Search: by words as long as this stands: {read.trouble}"]
    else:
        lines = [f"Search: by words and likeness ({read.model.name})"]
    for each in figures:
        if each.waiting or each.state is not ModelState.READING:
            of = f" of about {each.units}" if each.units >= each.waiting else ""
            trouble = f"; {each.trouble}" if each.trouble and each is not read else ""
            lines.append(
                f"Vectors: {each.model.name} {_STATES[each.state]}, {each.waiting}{of} units wait"
                f" (oldest {each.oldest_s:.0f} s){trouble}"
            )
    return lines
