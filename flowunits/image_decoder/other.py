"""Names files that ``image_decoder`` does not read, and says which program or unit reads them."""

__all__ = ["advise_other"]

# The beginning of a file -> its kind, and the way to read it.
_KINDS = (
    (
        (b"data:",),
        "a data URL",
        "send the file itself to /v2/models/NAME/generate, or the text behind the comma as "
        'base64: {"b64": "..."} to :predict, or through the unit base64_decoder',
    ),
    (
        (b"/9j/", b"iVBORw0KGgo", b"R0lGOD", b"UklGR"),
        "base64 text",
        'send the file itself to /v2/models/NAME/generate, or {"b64": "..."} to :predict, or use '
        "the unit base64_decoder",
    ),
    ((b"\xff\x0a", b"\0\0\0\x0cJXL "), "JPEG XL", "djxl of libjxl converts it to PNG"),
    ((b"%PDF",), "a PDF document", "pdftoppm of Poppler makes images of its pages"),
    ((b"%!PS",), "PostScript", "Ghostscript makes images of its pages"),
    ((b"8BPS",), "a Photoshop file", "ImageMagick converts it: magick FILE FILE.png"),
    ((b"DDS ",), "a DDS texture", "ImageMagick converts it: magick FILE FILE.png"),
    ((b"icns",), "an icon of macOS", "Pillow converts it to PNG"),
    ((b"\x01\xda",), "an SGI image", "ImageMagick converts it: magick FILE FILE.png"),
    ((b"v/1\x01",), "OpenEXR", "the package OpenEXR reads it in a unit of your own"),
    ((b"#?RADIANCE", b"#?RGBE"), "HDR with floats", "cv2.imread reads it in a unit"),
    ((b"SIMPLE  =",), "a FITS file", "astropy reads it in a unit of your own"),
    ((b"\x89HDF",), "an HDF5 file", "h5py reads it in a unit of your own"),
    ((b"\x93NUMPY",), "a NumPy file", "send the array itself, without image_decoder"),
    ((b"\x1a\x45\xdf\xa3", b"FLV", b"\0\0\1\xba"), "a video", "video_demuxer reads it"),
    ((b"\x1f\x8b", b"PK\3\4", b"BZh", b"7z\xbc\xaf"), "an archive", "unpack it first"),
    ((b"<svg", b"<?xml"), "SVG or other XML", "rsvg-convert of librsvg makes a PNG of SVG"),
    ((b"<!DOC", b"<!doc", b"<html", b"<HTML"), "a web page", "was the image not found?"),
    ((b"{", b"["), "JSON", "json_field takes an image out of JSON, and base64_decoder decodes it"),
    ((b"P1", b"P2", b"P3"), "PNM as text", "ImageMagick converts it: magick FILE FILE.png"),
)
_DICOM = 128  # the place of its mark
_OTHERWISE = "convert other formats first, for example by ImageMagick: magick FILE FILE.png"


def advise_other(head: bytes) -> str:
    """Returns the kind of a file, by its first bytes, and the way to read such files."""
    text = head.lstrip()
    if head[4:8] == b"ftyp":
        return "this is a video or an image of another kind in boxes; video_demuxer reads videos"
    if head[_DICOM : _DICOM + 4] == b"DICM":
        return "this is DICOM; pydicom reads it in a unit of your own"
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return "this is a video; video_demuxer reads it"
    for beginnings, kind, advice in _KINDS:
        if head.startswith(beginnings) or text.startswith(beginnings):
            return f"this is {kind}; {advice}"
    words = b" ".join(text.split())
    if words and words.isascii() and words.decode().isprintable():
        return "this is text; expected the bytes of an image file"
    return _OTHERWISE
