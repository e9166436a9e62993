"""`featurelib export`: the report of a run in another program's format."""

from __future__ import annotations

from featurelib.api.tables import NightTables
from featurelib.errors import ConfigError
from featurelib.extras.exports.ci import CiForm, render_for_ci
from featurelib.extras.exports.sheets import Sheet, render_sheet
from featurelib.view.model import render_json


def export(
    night: NightTables,
    as_form: CiForm | None = None,
    csv: Sheet | None = None,
    as_json: bool = False,
) -> int:
    """Print the report of a run for a spreadsheet or a CI server.

    \b
        featurelib export --as sarif --tables TABLES > report.sarif
        featurelib export --as junit --owner payments --tables TABLES > report.junit.xml
        featurelib export --csv findings --view live --tables TABLES > findings.csv

    Without --as and --csv it is JSON. --csv prints one part of it. What a spreadsheet would
    calculate begins with an apostrophe there.

    Exit codes: 0 done; 2 usage; 5 there is no run, or it judged none of these clusters.
    """
    if (as_form is not None) + (csv is not None) + as_json > 1:
        raise ConfigError("expected one of --as, --csv and --json, found several. Keep one.")
    if csv is not None:
        print(render_sheet(night.report, csv), end="")
    elif as_form is not None:
        print(render_for_ci(night.report, as_form, night.listed_in), end="")
    else:
        print(render_json(night.report).decode(), end="")
    return 0
