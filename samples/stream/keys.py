"""Writes the sound of telephone keys in noise: keys.py KEYS FILE.wav (8 kHz, 16 bits)."""
import math
import random
import struct
import sys
import wave

RATE = 8000
ROWS, COLUMNS, PAD = (697, 770, 852, 941), (1209, 1336, 1477, 1633), "123A456B789C*0#D"


def sound(key, seconds):
    """Two tones; none for a space."""
    tones = (ROWS[PAD.index(key) // 4], COLUMNS[PAD.index(key) % 4]) if key in PAD else ()
    return [sum(0.25 * math.sin(2 * math.pi * f * i / RATE) for f in tones) for i in range(int(seconds * RATE))]


def main():
    noise, samples = random.Random(1), sound(" ", 0.1)
    for key in sys.argv[1]:
        samples += sound(key, 0.1) + sound(" ", 0.08)
    with wave.open(sys.argv[2], "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        out.writeframes(b"".join(struct.pack("<h", round(32767 * (x + noise.gauss(0, 0.02)))) for x in samples))


if __name__ == "__main__":
    main()
