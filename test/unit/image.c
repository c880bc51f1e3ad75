// The decoders of images: each format, hostile sizes, truncated and mutated files.
#include "runtime-lite/image/image.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
// after the headers that it needs
#include <cmocka.h>

enum { HEIGHT = 2, WIDTH = 3, FILE_MOST = 2048 };

static const uint8_t picture[HEIGHT * WIDTH * 3] = {255, 0,   0,   0, 255, 0, 0,   0,  255,
                                                    255, 255, 255, 0, 0,   0, 128, 64, 32};

// The picture, as another program wrote it.
static const struct {
    const char *format;
    int missing; // the result without the library
    const char *hex;
} files[] = {
    {"PNG", IMAGE_NO_PNG,
     "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d0000001849444154789c63f8cf"
     "c0c000c1ffffff676060687050000046ef06dbef1774c70000000049454e44ae426082"},
    {"WEBP", IMAGE_NO_WEBP,
     "524946463a000000574542505650384c2d0000002f024000002f20102048f31f6543405074dd7202018214ff91e6"
     "3f406c726c152848db80c5dd53b288fec7d50100"},
    {"TIFF", IMAGE_NO_TIFF,
     "49492a0018000000803fc010381411ff07818010040104040a000001030001000000030000000101030001000000"
     "02000000020103000300000096000000030103000100000005000000060103000100000002000000110104000100"
     "0000080000001501030001000000030000001601030001000000020000001701040001000000100000001c010300"
     "010000000100000000000000080008000800"},
    {"JPEG2000", IMAGE_NO_JPEG2000,
     "0000000c6a5020200d0a870a00000014667479706a703220000000006a7032200000002d6a703268000000166968"
     "647200000002000000030003070700000000000f636f6c7201000000000010000000c76a703263ff4fff51002f00"
     "0000000003000000020000000000000000000000030000000200000000000000000003070101070101070101ff52"
     "000c00000001000104040001ff5c00074040484850ff640025000143726561746564206279204f70656e4a504547"
     "2076657273696f6e20322e352e34ff90000a00000000004c0001ff93df80180c217ecfb40c0c2107cfb40c05e95f"
     "cfc00a3ed0287da02006df0a4d07c3ea019f801cfcc080010c217e0879cfc00a7e00703e7020073700442b07ffd9"},
    {"JPEG", IMAGE_NO_JPEG,
     "ffd8ffe000104a46494600010100000100010000ffdb004300010101010101010101010101010101010101010101"
     "01010101010101010101010101010101010101010101010101010101010101010101010101010101010101ffdb00"
     "43010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101"
     "0101010101010101010101010101010101010101ffc00011080002000303011100021101031101ffc4001f000001"
     "0501010101010100000000000000000102030405060708090a0bffc400b510000201030302040305050404000001"
     "7d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25"
     "262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a8384"
     "85868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5"
     "d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100030101010101010101010000000000"
     "000102030405060708090a0bffc400b5110002010204040304070504040001027700010203110405213106124151"
     "0761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a35363738393a43"
     "4445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a929394959697"
     "98999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8"
     "e9eaf2f3f4f5f6f7f8f9faffda000c03010002110311003f00fcaffda7bc0de09bafdad3f6cbb4b9f07f85ae2d7c"
     "37fb6b7ed91e06f0edb4fe1fd266b7d07c13f0f7f69df8afe06f00f83f45864b468f4bf0b781fc13e1ef0ff83bc2"
     "1e1fb158349f0d785b43d1fc3da2da59693a6595a41f03ff001315f482f07e553c3cf097c75f193c2ee00c8aad6a"
     "f927037875e2771b704f07e4f5f3eab3e24cf6b655c33c359e65992e5f573ae21cdf36cfb36a984c1519e639d669"
     "98e698c75b1d8dc4d7abfd57e1ef04705f1170cc389788384385f3de23e28cf78c38a789b3fce320cab33cef88b8"
     "9b8978c33dcf788f88b3dcd71b84af8ecdf3de20cef30c7e719de6f9857c46619ae6b8dc5e618fc457c5e26b569f"
     "ffd9"},
    {"BMP", IMAGE_CORRUPT,
     "424d4e000000000000003600000028000000030000000200000001001800000000001800000000000000000000000000"
     "000000000000ffffff0000002040800000000000ff00ff00ff0000000000"},
    {"PNM", IMAGE_CORRUPT, "50360a3320320a3235350aff000000ff000000ffffffff000000804020"},
};
enum { FILES = sizeof files / sizeof *files };

static int64_t bytes_of(const char *hex, uint8_t *to) {
    int64_t n = (int64_t)strlen(hex) / 2;
    assert_in_range(n, 1, FILE_MOST);
    for (int64_t i = 0; i < n; i++) {
        const char byte[] = {hex[2 * i], hex[2 * i + 1], 0};
        to[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return n;
}

// In memory of exactly that size, so that reads beyond the end are found.
static int decode(const uint8_t *from, int64_t n, image *to) {
    uint8_t *own = malloc((size_t)n + !n);
    assert_non_null(own);
    memcpy(own, from, (size_t)n);
    int result = onnxc_rt_image_decode(own, n, &to->height, &to->width, &to->rgb);
    free(own);
    assert_true((result == IMAGE_DECODED) == (to->rgb != NULL));
    return result;
}

static void every_format_is_decoded(void **state) {
    (void)state;
    for (int j = 0; j < FILES; j++) {
        uint8_t file[FILE_MOST];
        image to;
        int result = decode(file, bytes_of(files[j].hex, file), &to);
        if (result == files[j].missing && result != IMAGE_CORRUPT) {
            print_message("skipped: no library for %s\n", files[j].format);
            continue;
        }
        assert_int_equal(result, IMAGE_DECODED);
        assert_int_equal(to.height, HEIGHT);
        assert_int_equal(to.width, WIDTH);
        int most = strcmp(files[j].format, "JPEG") == 0 ? 3 : 0;
        for (int i = 0; i < HEIGHT * WIDTH * 3; i++) assert_in_range(abs(to.rgb[i] - picture[i]), 0, most);
        free(to.rgb);
    }
}

// No part of a file but the end of its padding can be missing.
static void truncated_files_are_refused(void **state) {
    (void)state;
    for (int j = 0; j < FILES; j++) {
        uint8_t file[FILE_MOST];
        int64_t n = bytes_of(files[j].hex, file);
        image to;
        for (int64_t i = 0; i < n; i++) {
            int result = decode(file, i, &to);
            if (i < n / 2) assert_int_not_equal(result, IMAGE_DECODED);
            free(to.rgb);
        }
    }
}

static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13, *s ^= *s >> 7, *s ^= *s << 17;
    return *s;
}

// Nothing but expected a result: sanitizers and the decoders' own checks see the rest.
static void mutated_files_do_no_harm(void **state) {
    uint64_t seed = 88172645463325252u;
    (void)state;
    for (int j = 0; j < FILES; j++)
        for (int i = 0; i < 200; i++) {
            uint8_t file[FILE_MOST];
            int64_t n = bytes_of(files[j].hex, file);
            image to;
            for (int k = 0; k <= i % 4; k++)
                file[next_random(&seed) % (uint64_t)n] ^= (uint8_t)(1u << next_random(&seed) % 8);
            decode(file, n, &to);
            free(to.rgb);
        }
}

static int decode_text(const char *text) {
    image to;
    int result = decode((const uint8_t *)text, (int64_t)strlen(text), &to);
    free(to.rgb);
    return result;
}

static void wrong_sizes_are_refused(void **state) {
    (void)state;
    assert_int_equal(decode_text(""), IMAGE_UNKNOWN);
    assert_int_equal(decode_text("GIF89a"), IMAGE_UNKNOWN);
    assert_int_equal(decode_text("P6 2147483647 2147483647 255\n"), IMAGE_CORRUPT);
    assert_int_equal(decode_text("P6 99999999999999999999 1 255\n"), IMAGE_CORRUPT);
    assert_int_equal(decode_text("P2 0 1 255\n"), IMAGE_CORRUPT);
    assert_int_equal(decode_text("P2 1 1 0 0"), IMAGE_CORRUPT);
    assert_int_equal(decode_text("P2 1 1 9 10"), IMAGE_CORRUPT);
    assert_int_equal(decode_text("P2 # a comment\n1 1 9 9"), IMAGE_DECODED);
    assert_int_equal(decode_text("P1 3 1 101"), IMAGE_DECODED);
    image to = {0};
    assert_int_equal(image_new(&to, 1 << 14, (1 << 14) + 1), IMAGE_TOO_LARGE);
    assert_int_equal(image_new(&to, INT64_MAX, INT64_MAX), IMAGE_TOO_LARGE);
    assert_null(to.rgb);
}

// A JPEG in several scans, which libjpeg decodes by coefficients of the whole image: six bytes per pixel.
static int64_t jpeg_in_scans(uint8_t *file, uint8_t size_high) {
    int64_t n = 0, at = 2;
    for (int j = 0; j < FILES; j++)
        if (files[j].missing == IMAGE_NO_JPEG) n = bytes_of(files[j].hex, file);
    while (file[at + 1] != 0xc0) at += 2 + file[at + 2] * 256 + file[at + 3];
    file[at + 1] = 0xc2;
    file[at + 5] = file[at + 7] = size_high;
    return n;
}

static void lack_of_memory_is_told(void **state) {
    enum { ROOM = 300 << 20 }; // for 2^26 pixels, but not for their coefficients
    (void)state;
    uint8_t file[FILE_MOST];
    struct rlimit limit;
    image to;
#ifdef __SANITIZE_ADDRESS__ // has no room to spare
    skip();
#endif
    if (getrlimit(RLIMIT_AS, &limit)) skip();
    const struct rlimit before = limit;
    FILE *own = fopen("/proc/self/statm", "r");
    long pages = 0;
    if (!own || fscanf(own, "%ld", &pages) != 1) skip();
    fclose(own);
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ROOM;
    int64_t n = jpeg_in_scans(file, 1 << 13 >> 8);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    int result = decode(file, n, &to);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    if (result != IMAGE_NO_JPEG) assert_int_equal(result, IMAGE_NO_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_decoded),  cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(mutated_files_do_no_harm), cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
