"""Cases that version_cases.py cannot make from ONNX's own: operators without a node case, and meanings that older
versions had and newer ones lack (broadcast attributes, flattening, spatial batch normalisation)."""
EXTRA = {}
