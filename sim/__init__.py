"""What moves the bodies: one contract (`base`), one module an engine. Only this file knows engine names."""
