"""XML with a few mistakes in it, as careless editing or a broken disk makes them."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from livegym.compat.core.asset import load_asset
from livegym.compat.core.records import AssetOptions
from livegym.utils.errors import UserError

WRONG = ["", "x", "-1", "nan", "1e400", "0", "0 0 0", "1 2 3 4 5", "1e-320", "1e30", "true"]
"""Values for attributes that mostly expect something else."""


@st.composite
def damaged(draw, text: str) -> str:
    """`text` with one to three elements removed or doubled, or attributes removed or given another value."""
    tree = ET.fromstring(text)
    for _ in range(draw(st.integers(1, 3))):
        element = draw(st.sampled_from(list(tree.iter())))
        attributes = sorted(element.attrib)
        damage = draw(st.sampled_from(["change", "drop", "remove", "double"]))
        if damage == "change" and attributes:
            element.set(draw(st.sampled_from(attributes)), draw(st.sampled_from(WRONG)))
        elif damage == "drop" and attributes:
            element.attrib.pop(draw(st.sampled_from(attributes)))
        elif damage == "remove" and len(element):
            element.remove(draw(st.sampled_from(list(element))))
        elif damage == "double" and len(element):
            element.append(copy.deepcopy(draw(st.sampled_from(list(element)))))
    return ET.tostring(tree, encoding="unicode")


def refused_or_finite(file: Path, text: str, fixed: bool) -> None:
    """An asset with this text is refused by name, or it loads and all its numbers are finite."""
    file.write_text(text)
    refusal = ""
    try:
        asset = load_asset(
            str(file.parent), file.name, AssetOptions(fix_base_link=fixed, collapse_fixed_joints=not fixed)
        )
    except UserError as error:
        refusal = error.message
    if refusal:
        assert file.name in refusal
        return
    for name in ("body_mass", "body_inertia", "body_pos", "body_quat", "geom_size", "jnt_range", "jnt_axis"):
        assert np.isfinite(getattr(asset.model, name)).all(), name
    rows = asset.dof_properties
    assert (rows["lower"] < rows["upper"]).all()
    assert all(np.isfinite(rows[name]).all() for name in rows.dtype.names)
