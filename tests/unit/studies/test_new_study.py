"""How a study begins: its id, and what becomes of one that is read from files and cannot be kept to its end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pgdyno import __version__
from pgdyno.errors import UsageError
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.probes.evidence.sample_files import SampleFile
from pgdyno.store.catalogue import Store
from pgdyno.studies.imported.samples import NamedSamples, import_samples
from pgdyno.studies.session.new_study import study_id


def test_an_id_tells_moment_and_kind_and_two_of_one_second_apart() -> None:
    ids = {study_id(StudyKind.MATRIX, 1.5) for _ in range(20)}
    assert len(ids) > 1
    assert all(re.fullmatch(r"19700101-000001-matrix-[0-9a-f]{4}", one) for one in ids)


def test_an_import_that_breaks_off_leaves_no_study_that_seems_to_run(tmp_path: Path) -> None:
    whole = SampleFile("sadf", "db9", 2, (SampleRow("memory", 1.0, (None,) * (len(TABLES["memory"].columns))),))
    broken = SampleFile("sadf", "db9", 2, (SampleRow("memory", 1.0, (None,)),))
    with Store.open(tmp_path / "store.db") as store:
        with pytest.raises(UsageError, match="columns"):
            import_samples(store, [NamedSamples("a", "0", whole), NamedSamples("b", "0", broken)])
        assert [study.state for study in store.studies()] == [StudyState.FAILED]
        done = import_samples(store, [NamedSamples("a", "0", whole)])
        assert store.study(done.study).state is StudyState.COMPLETE
        assert store.study(done.study).result == done
        assert store.study(done.study).began_by == f"pgdyno {__version__}"
