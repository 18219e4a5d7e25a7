"""What the doctor found, as one small page that needs nothing else."""

from html import escape

from maci2 import __version__
from maci2.diagnostics.diagnosis import IMAGE_COLUMNS, SENSOR_COLUMNS, Diagnosis, ImageDiagnosis
from maci2.findings import Finding

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.4rem}.first{padding:.8rem 1rem;border-left:.4rem solid;background:#f6f6f6}
table{border-collapse:collapse;width:100%;margin:1rem 0}
td,th{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid #ddd}
td.n{text-align:right;font-variant-numeric:tabular-nums}
.error{color:#b00020;border-color:#b00020}.warn{color:#8a5a00;border-color:#e0a000}
.ok{color:#1b6e2f;border-color:#1b6e2f}footer{color:#777;font-size:.85rem}
@media (prefers-color-scheme:dark){body{background:#181818;color:#ddd}.first{background:#242424}
td,th{border-color:#444}.error{color:#ff8a8a}.warn{color:#f0c060}.ok{color:#7fd08f}}
"""


def diagnostics_page(health: Diagnosis) -> str:
    """HTML: the first line, sensors, images, every finding."""
    level = health.findings[0].level
    title = f"{escape(health.name)}: {'usable' if health.usable else 'not usable'}"
    sensors = [(name, timing.cells()) for name, timing in health.sensors]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<p class='first {level}'>{escape(health.first_line)}</p>"
        f"{_table('sensor', SENSOR_COLUMNS, sensors)}"
        f"{_images(health.images) if health.images else ''}"
        "<table><thead><tr><th></th><th>part</th><th>finding</th></tr></thead>"
        f"<tbody>{''.join(_finding(finding) for finding in health.findings)}</tbody></table>"
        f"<footer>maci2 {escape(__version__)} check</footer></body></html>\n"
    )


def _images(images: ImageDiagnosis) -> str:
    cameras = [(f"cam{i}", camera.cells()) for i, camera in enumerate(images.cameras)]
    return _table(f"images at {images.places} places", IMAGE_COLUMNS, cameras)


def _table(corner: str, columns: tuple[str, ...], rows: list[tuple[str, tuple[str, ...]]]) -> str:
    head = "".join(f"<th>{column}</th>" for column in (corner, *columns))
    body = "".join(
        f"<tr><th>{name}</th>{''.join(f'<td class=n>{cell}</td>' for cell in cells)}</tr>"
        for name, cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _finding(finding: Finding) -> str:
    return (
        f"<tr><td class='{finding.level}'>{finding.level}</td><td>{escape(finding.what)}</td>"
        f"<td>{escape(finding.text)}</td></tr>"
    )
