"""The OpenAPI document, and a page that shows it and loads nothing from another host.

Swagger UI comes with the package `swagger-ui-bundle`. Its version reads OpenAPI 3.0, so the document declares that
version. Request bodies are described by the same schemas that validate them.
"""

from __future__ import annotations

from typing import Any

import swagger_ui_bundle
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse, HTMLResponse, Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

OPENAPI = "3.0.3"
FILES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>livegym online</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#page", validatorUrl: null, deepLinking: true});\n'
"""The script of the page. It is a file, because the content security policy allows no inline scripts."""


def add_documentation(app: FastAPI, bodies: dict[str, type[BaseModel]]) -> None:
    """Add the page `/docs`, and add the schemas of the request `bodies` (path -> schema) to `/openapi.json`."""
    written: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not written:
            written.update(_document(app, bodies))
        return written

    app.openapi = document  # type: ignore[method-assign]

    @app.get("/docs", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(PAGE)

    @app.get("/docs/start.js", include_in_schema=False)
    async def start() -> Response:
        return Response(START, media_type="text/javascript")

    for name, kind in FILES.items():
        _add_file(app, name, kind)


def _add_file(app: FastAPI, name: str, kind: str) -> None:
    async def answer() -> FileResponse:
        headers = {"cache-control": "private, max-age=86400"}
        return FileResponse(swagger_ui_bundle.swagger_ui_path / name, headers=headers, media_type=kind)

    app.add_api_route(f"/docs/{name}", answer, include_in_schema=False, response_model=None)


def _document(app: FastAPI, bodies: dict[str, type[BaseModel]]) -> dict[str, Any]:
    made = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        openapi_version=OPENAPI,
        routes=app.routes,
        servers=app.servers,
    )
    models = [(model, "validation") for model in bodies.values()]
    _, schemas = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    made["components"]["schemas"].update(schemas["$defs"])
    for path, model in bodies.items():
        schema = {"$ref": f"#/components/schemas/{model.__name__}"}
        made["paths"][path]["post"]["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return made
