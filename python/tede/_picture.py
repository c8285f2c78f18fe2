"""x.show() of a picture: a small image, or a matrix such as attention, drawn in a notebook and in a terminal.

A picture is uint8, or a float from 0 to 1, of shape (H, W) or (C, H, W) with one, three or four channels; a matrix of other numbers is
scaled from its least to its largest. In a notebook it is a PNG, written here (ISO/IEC 15948: zlib has all that it needs), in a terminal
half blocks of 24-bit colours, two rows a line, or ten shades of text where colours aren't wanted."""
import os
import struct
import sys
import zlib

MOST = 1024                 # pixels along a side
_SHADES = " .:-=+*#%@"
_WIDTH = 96                 # columns of a terminal


def is_picture(x):
    """Whether a tensor looks like one: three or four channels, or one, first, of bytes or of numbers from 0 to 1."""
    if x.ndim != 3 or x.shape[0] not in (1, 3, 4) or not all(8 <= n <= MOST for n in x.shape[1:]) or x.is_meta:
        return False
    return _is_bytes(x) or (x.dtype.is_floating_point and 0 <= x.min() and x.max() <= 1)


def _is_bytes(x):
    return str(x.dtype).endswith(".uint8")


class Picture:
    """What x.show(picture=True) gives."""

    def __init__(self, x):
        import tede
        if x.ndim not in (2, 3) or (x.ndim == 3 and x.shape[0] not in (1, 3, 4)) or not x.numel() or max(x.shape[-2:]) > MOST:
            raise ValueError(f"show: a picture has shape (H, W) or (C, H, W) with 1, 3 or 4 channels, and {MOST} pixels along a side at most; "
                             f"this is {list(x.shape)}")
        self.title = f"{str(x.dtype).rpartition('.')[2]}{list(x.shape)}"
        x = x.detach().cpu()
        if x.is_complex():
            x = x.abs()
        if not _is_bytes(x):
            x = x.double()
            low, high = x.min().item() + 0.0, x.max().item() + 0.0        # no -0
            if not (0 <= low and high <= 1) or (x.ndim == 2 and high > low):      # a matrix is scaled to what it has
                x = (x - low) / ((high - low) or 1)
                self.title += f", black {low:.4g}, white {high:.4g}"
            x = x.nan_to_num().clamp(0, 1).mul(255).round().to(tede.uint8)
        self._pixels = x[None] if x.ndim == 2 else x

    def png(self, path=None):
        """The picture as the bytes of a PNG file, written to `path` if there is one."""
        channels, height, width = self._pixels.shape
        rows = self._pixels.permute(1, 2, 0).reshape(height, -1).tolist()

        def chunk(name, data):
            return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
        data = b"".join([b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))),
                         chunk(b"IEND", b"")])
        if path is not None:
            with open(path, "wb") as file:
                file.write(data)
        return data

    def _repr_html_(self):
        import base64
        _, height, width = self._pixels.shape
        scale = max(1, 256 // max(height, width))
        return (f'<figure style="margin:0"><img src="data:image/png;base64,{base64.b64encode(self.png()).decode()}" width={width * scale} '
                f'height={height * scale} style="image-rendering:pixelated;max-width:100%" alt="{self.title}">'
                f'<figcaption style="opacity:.7">{self.title}</figcaption></figure>')

    def text(self, colours=False):
        """For a terminal: half blocks in colours, or shades."""
        step = max(1, -(-self._pixels.shape[2] // _WIDTH))
        pixels = self._pixels[:, ::step, ::step]
        channels, height, width = pixels.shape
        values = pixels.permute(1, 2, 0).tolist()
        lines = [self.title]
        for y in range(0, height, 2):
            line = ""
            for x in range(width):
                upper, lower = values[y][x], values[y + 1][x] if y + 1 < height else values[y][x]
                if colours:
                    line += "\033[38;2;{};{};{}m\033[48;2;{};{};{}m\u2580".format(*_rgb(upper), *_rgb(lower))
                else:
                    line += _SHADES[(sum(_rgb(upper)) + sum(_rgb(lower))) * (len(_SHADES) - 1) // (6 * 255)]
            lines.append(line.rstrip() + ("\033[0m" if colours else ""))
        return "\n".join(lines)

    def __str__(self):
        return self.text(colours=sys.stdout.isatty() and not os.environ.get("NO_COLOR"))

    __repr__ = __str__


def _rgb(pixel):
    """Three numbers of one, three or four; what lies behind a transparent pixel is black."""
    if len(pixel) == 1:
        return pixel * 3
    return pixel if len(pixel) == 3 else [value * pixel[3] // 255 for value in pixel[:3]]
