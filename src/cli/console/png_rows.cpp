// By the interface of rows: that of whole pictures takes 16 bits for linear light and obeys a gamma, as nobody else
// does who reads arrays.
#include "cli/console/png_rows.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

namespace peri::cli {

namespace {
// What a read needs. Errors of the library leave by a jump, so that no function on its way owns anything.
struct Reader {
  std::string_view bytes = {};
  size_t at = 0;
  std::string why = {};
  bool alpha = false;  // the file has one
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<uint8_t> read = {};
  std::vector<png_bytep> rows = {};

  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void take(png_structp png, png_bytep to, size_t count) {
  auto* r = static_cast<Reader*>(png_get_io_ptr(png));
  if (r->bytes.size() - r->at < count) png_error(png, "it ends too early");
  std::memcpy(to, r->bytes.data() + r->at, count);
  r->at += count;
}

void fail(png_structp png, png_const_charp why) {
  static_cast<Reader*>(png_get_error_ptr(png))->why = why;
  png_longjmp(png, 1);
}
void ignore(png_structp, png_const_charp) {}

// False: `why` is said.
bool read_head(Reader* r) {
  if (setjmp(png_jmpbuf(r->png)) != 0) return false;
  png_set_benign_errors(r->png, 1);
  png_set_read_fn(r->png, r, take);
  png_read_info(r->png, r->info);
  r->alpha = (png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_ALPHA) != 0;
  png_set_expand_gray_1_2_4_to_8(r->png);
  png_set_palette_to_rgb(r->png);
  png_set_gray_to_rgb(r->png);
  png_set_strip_alpha(r->png);
  png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
  return true;
}

bool read_rows(Reader* r) {
  if (setjmp(png_jmpbuf(r->png)) != 0) return false;
  png_read_image(r->png, r->rows.data());
  return true;
}

Error broken(const std::string& why) {
  return invalid("a broken PNG file: %s", why.c_str()).advise("write the picture again, or fetch it again");
}
}  // namespace

Result<PngRows> read_png(std::string_view bytes, Status (*fits)(int64_t width, int64_t height)) {
  Reader r;
  r.bytes = bytes;
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, fail, ignore);
  if (r.png) r.info = png_create_info_struct(r.png);
  if (!r.info) return Error(ErrorKind::kMemory, "no memory to decode a picture");
  png_set_user_limits(r.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // `fits` says what is too large
  if (!read_head(&r)) return broken(r.why);
  PngRows out{png_get_image_height(r.png, r.info), png_get_image_width(r.png, r.info)};
  out.alpha = r.alpha;
  PERI_TRY(fits(out.width, out.height));
  const size_t height = static_cast<size_t>(out.height), numbers = 3 * static_cast<size_t>(out.width);
  const bool wide = out.wide = png_get_bit_depth(r.png, r.info) == 16;
  const size_t row = png_get_rowbytes(r.png, r.info);
  if (row != numbers * (wide ? 2 : 1)) return internal_error("a row of a PNG file has another size");
  r.read.resize(height * row);
  for (size_t y = 0; y < height; ++y) r.rows.push_back(&r.read[y * row]);
  if (!read_rows(&r)) return broken(r.why);
  out.rgb.resize(height * numbers);
  for (size_t k = 0; k < out.rgb.size(); ++k)
    out.rgb[k] = wide ? static_cast<float>(r.read[2 * k] * 256 + r.read[2 * k + 1]) / 257 : r.read[k];
  return out;
}

}  // namespace peri::cli
