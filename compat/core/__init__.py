"""The core behind the package `isaacgym`: values, importers, scene and engine, in this project's own words."""
