"""The bundled models embedded in models of published shapes, which write the same texts at those shapes' cost."""
