// Decodes, resizes with a filter as wide as the sampling step, and rearranges.
#include "cli/console/pictures.hpp"

#include <turbojpeg.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "base/file.hpp"
#include "cli/console/png_rows.hpp"

namespace peri::cli {

namespace {
constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr int64_t kMaxPixels = int64_t{1} << 26;

// Rows of RGB floats, 0 to 255.
struct Pixels {
  int64_t height = 0, width = 0;
  std::vector<float> v = {};
  bool wide = false, alpha = false;  // as read: of 16 bits; an alpha was left out
};

Error broken(const char* why) {
  return invalid("a broken JPEG file: %s", why).advise("write the picture again, or fetch it again");
}

Status check_size(int64_t width, int64_t height) {
  if (width >= 1 && height >= 1 && width <= kMaxPixels / height) return Ok{};
  if (width < 1 || height < 1) return broken("it has no pixels");
  return unsupported("a picture of %lldx%lld", static_cast<long long>(width), static_cast<long long>(height))
      .expecting(format("at most %lld pixels", static_cast<long long>(kMaxPixels)));
}

Pixels pixels_of(int64_t width, int64_t height, const std::vector<uint8_t>& rgb) {
  return {height, width, std::vector<float>(rgb.begin(), rgb.end())};
}

Result<Pixels> decode_png(std::string_view bytes) {
  PERI_ASSIGN(PngRows read, read_png(bytes, check_size));
  return Pixels{read.height, read.width, std::move(read.rgb), read.wide, read.alpha};
}

Result<Pixels> decode_jpeg(std::string_view bytes) {
  const std::unique_ptr<void, int (*)(void*)> turbo(tjInitDecompress(), tjDestroy);
  if (!turbo) return Error(ErrorKind::kMemory, "no memory to decode a picture");
  int width = 0, height = 0, sampling = 0, space = 0;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (tjDecompressHeader3(turbo.get(), data, bytes.size(), &width, &height, &sampling, &space) != 0)
    return broken(tjGetErrorStr2(turbo.get()));
  PERI_TRY(check_size(width, height));
  if (space == TJCS_CMYK || space == TJCS_YCCK)  // what they are in RGB depends on inks
    return unsupported("a JPEG file of CMYK").expecting("grey or RGB").advise("convert it to RGB");
  std::vector<uint8_t> rgb(3 * static_cast<size_t>(width) * static_cast<size_t>(height));
  if (tjDecompress2(turbo.get(), data, bytes.size(), rgb.data(), width, 0, height, TJPF_RGB, TJFLAG_STOPONWARNING) != 0)
    return broken(tjGetErrorStr2(turbo.get()));
  return pixels_of(width, height, rgb);
}

Result<Pixels> decode(const std::string& file) {
  PERI_ASSIGN(const std::string bytes, read_file(file, kMaxBytes));
  const bool png = bytes.starts_with("\x89PNG");
  if (!png && !bytes.starts_with("\xff\xd8"))
    return invalid("not a picture")
        .in_file(file)
        .expecting("a PNG or JPEG file")
        .but_found(bytes.empty() ? "an empty file" : "another kind of file, by its first bytes");
  auto made = png ? decode_png(bytes) : decode_jpeg(bytes);
  if (!made.ok()) return std::move(made).error().in_file(file);
  return made;
}

// Resamples `from` elements to `to` with a triangle filter as wide as the sampling step, at least one element: bilinear
// when enlarging, without aliasing when shrinking.
void resize_line(const float* in, int64_t from, int64_t stride_in, float* out, int64_t to, int64_t stride_out) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(1.0, scale);
  for (int64_t k = 0; k < to; ++k) {
    const double centre = (static_cast<double>(k) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, std::llround(std::floor(centre - reach + 0.5)));
    const auto last = std::min<int64_t>(from, std::llround(std::floor(centre + reach + 0.5)));
    double sum = 0, weights = 0;
    for (int64_t i = first; i < last; ++i) {
      const double weight = std::max(0.0, 1 - std::abs((static_cast<double>(i) + 0.5 - centre) / reach));
      sum += weight * static_cast<double>(in[i * stride_in]);
      weights += weight;
    }
    out[k * stride_out] = static_cast<float>(weights > 0 ? sum / weights : 0);
  }
}

Pixels resized(const Pixels& in, int64_t height, int64_t width) {
  Pixels wide{in.height, width, std::vector<float>(static_cast<size_t>(in.height * width * 3))};
  for (int64_t y = 0; y < in.height; ++y)
    for (int64_t c = 0; c < 3; ++c)
      resize_line(&in.v[static_cast<size_t>(y * in.width * 3 + c)], in.width, 3,
                  &wide.v[static_cast<size_t>(y * width * 3 + c)], width, 3);
  Pixels out{height, width, std::vector<float>(static_cast<size_t>(height * width * 3))};
  for (int64_t x = 0; x < width * 3; ++x)
    resize_line(&wide.v[static_cast<size_t>(x)], in.height, width * 3, &out.v[static_cast<size_t>(x)], height,
                width * 3);
  return out;
}

Pixels cropped(const Pixels& in, int64_t height, int64_t width) {
  Pixels out{height, width, {}};
  const int64_t top = (in.height - height) / 2, left = (in.width - width) / 2;
  for (int64_t y = 0; y < height; ++y) {
    const auto row = in.v.begin() + ((top + y) * in.width + left) * 3;
    out.v.insert(out.v.end(), row, row + width * 3);
  }
  return out;
}

std::string size_text(const Pixels& p) { return std::to_string(p.width) + "x" + std::to_string(p.height); }

// The picture resized as requested; `done` receives a description.
Result<Pixels> fitted(const Pixels& in, int64_t height, int64_t width, Fit fit, std::string* done) {
  *done = size_text(in);
  if (in.height == height && in.width == width) return in;
  if (fit == Fit::kNone)
    return usage("the picture has the wrong size")
        .expecting(format("%lldx%lld", static_cast<long long>(width), static_cast<long long>(height)))
        .but_found(*done)
        .advise("let --fit stretch or --fit crop change it");
  Pixels out;
  if (fit == Fit::kCrop) {
    const double scale = std::max(static_cast<double>(height) / static_cast<double>(in.height),
                                  static_cast<double>(width) / static_cast<double>(in.width));
    const auto scaled = [scale](int64_t from, int64_t least) {
      return std::max<int64_t>(least, std::llround(static_cast<double>(from) * scale));
    };
    out = cropped(resized(in, scaled(in.height, height), scaled(in.width, width)), height, width);
  } else {
    out = resized(in, height, width);
  }
  *done += " to " + size_text(out) + (fit == Fit::kCrop ? " (its middle, bilinear)" : " (stretched, bilinear)");
  return out;
}

// Positions of an image's axes in a shape.
struct Axes {
  size_t channels = 0, height = 0, width = 0;
  bool last() const { return channels > height; }
};

Result<Axes> axes_of(const std::vector<int64_t>& sizes, const std::string& layout) {
  const size_t rank = sizes.size(), base = rank == 4 ? 1 : 0;
  const auto channels = [&](size_t axis) { return sizes[axis] == 1 || sizes[axis] == 3; };
  if ((rank == 3 || rank == 4) && (rank == 3 || sizes[0] == 1 || sizes[0] == -1)) {
    if (layout != "nhwc" && (channels(base) || (layout == "nchw" && sizes[base] == -1)))
      return Axes{base, base + 1, base + 2};
    if (layout != "nchw" && (channels(base + 2) || (layout == "nhwc" && sizes[base + 2] == -1)))
      return Axes{base + 2, base, base + 1};
  }
  std::string found;
  for (const int64_t size : sizes) found += (found.empty() ? "[" : ",") + (size < 0 ? "?" : std::to_string(size));
  std::vector<int64_t> alone = sizes;
  if (rank == 4) alone[0] = 1;
  const bool batch = alone != sizes && axes_of(alone, layout).ok();
  return usage("this input cannot be a picture")
      .expecting("[1,C,H,W], [1,H,W,C], [C,H,W] or [H,W,C] with C 1 or 3")
      .but_found(found + "]")
      .advise(batch ? "a picture is one item: run it at batch 1, or give an array of all items as a .npy"
                    : "give --layout nchw or nhwc if its sizes are ambiguous");
}

Result<std::array<double, 3>> three(const Arguments& arguments, const char* flag, std::array<double, 3> otherwise) {
  if (!arguments.has(flag)) return otherwise;
  const std::string text = arguments.get(flag);
  std::array<double, 3> out = {};
  size_t count = 0;
  for (const char* at = text.data(); count < 3; ++count) {
    const auto [end, code] = std::from_chars(at, text.data() + text.size(), out[count]);
    const bool last = end == text.data() + text.size();
    if (code != std::errc() || !std::isfinite(out[count]) || !(last || *end == ',')) break;
    at = end + 1;
    if (!last) continue;
    if (count == 0) return std::array<double, 3>{out[0], out[0], out[0]};
    if (count == 2) return out;
    break;
  }
  return usage("%s is not a number, or three with commas", flag).but_found(text);
}

std::string list_text(const std::array<double, 3>& v) { return format("%g,%g,%g", v[0], v[1], v[2]); }
}  // namespace

bool is_picture(const std::string& file) {
  std::string name = file;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg");
}

std::vector<Flag> picture_flags() {
  return {{"--fit", "", "stretch|crop|none", "how an image is fitted to the input's size (default: stretch)"},
          {"--layout", "", "nchw|nhwc", "channel order of an image input (default: from the input's shape)"},
          {"--mean", "", "R,G,B", "subtracted from pixel values, which are 0 to 1 (default: 0)"},
          {"--std", "", "R,G,B", "then divided by (default: 1)"}};
}

Result<PictureTerms> picture_terms(const Arguments& arguments) {
  PictureTerms out;
  const std::string fit = arguments.get("--fit", "stretch");
  if (fit != "stretch" && fit != "crop" && fit != "none")
    return usage("--fit has an invalid value").expecting("stretch, crop or none").but_found(fit);
  out.fit = fit == "crop" ? Fit::kCrop : fit == "none" ? Fit::kNone : Fit::kStretch;
  out.layout = arguments.get("--layout");
  if (!out.layout.empty() && out.layout != "nchw" && out.layout != "nhwc")
    return usage("--layout has an invalid value").expecting("nchw or nhwc").but_found(out.layout);
  PERI_ASSIGN(out.mean, three(arguments, "--mean", out.mean));
  PERI_ASSIGN(out.std, three(arguments, "--std", out.std));
  if (std::any_of(out.std.begin(), out.std.end(), [](double v) { return !(v != 0); }))
    return usage("--std must not be 0");
  out.normalised = arguments.has("--mean") || arguments.has("--std");
  return out;
}

Result<Picture> read_picture(const std::string& file, DType type, const std::vector<int64_t>& sizes,
                             const PictureTerms& terms) {
  const bool bytes = type == DType::kU8;
  if (!bytes && !is_float(type))
    return usage("a picture cannot be an input of %s", std::string(dtype_name(type)).c_str()).in_file(file);
  auto axes = axes_of(sizes, terms.layout);
  if (!axes.ok()) return std::move(axes).error().in_file(file);
  for (const auto& [flag, v] : {std::pair("--mean", &terms.mean), std::pair("--std", &terms.std)})
    if (sizes[axes->channels] == 1 && ((*v)[0] != (*v)[1] || (*v)[0] != (*v)[2]))
      return usage("%s has three numbers, and the input one channel", flag)
          .in_file(file)
          .expecting("one number")
          .but_found(list_text(*v));
  if (bytes && terms.normalised) return usage("--mean and --std are for inputs of floats").in_file(file);
  PERI_ASSIGN(const Pixels read, decode(file));
  const auto size_of = [&](size_t axis, int64_t own) { return sizes[axis] == -1 ? own : sizes[axis]; };
  Picture out;
  auto made = fitted(read, size_of(axes->height, read.height), size_of(axes->width, read.width), terms.fit, &out.done);
  if (!made.ok()) return std::move(made).error().in_file(file);
  const bool grey = sizes[axes->channels] == 1;
  std::vector<int64_t> dims(sizes.size(), 1);
  dims[axes->channels] = grey ? 1 : 3;
  dims[axes->height] = made->height;
  dims[axes->width] = made->width;
  PERI_ASSIGN(out.tensor, Tensor::zeros(type, dims));
  const int64_t channels = dims[axes->channels], area = made->height * made->width;
  for (int64_t k = 0; k < area; ++k)
    for (int64_t c = 0; c < channels; ++c) {
      const float* p = &made->v[static_cast<size_t>(3 * k)];
      const double v = grey ? 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2] : static_cast<double>(p[c]);
      const auto place = axes->last() ? k * channels + c : c * area + k;
      const auto at = static_cast<size_t>(c);
      if (bytes)
        out.tensor.set_i64(place, std::llround(std::clamp(v, 0.0, 255.0)));
      else
        out.tensor.set_f64(place, (v / 255 - terms.mean[at]) / terms.std[at]);
    }
  out.done += std::string(axes->last() ? ", nhwc, " : ", nchw, ") + (grey ? "grey" : "RGB") +
              (read.alpha ? " without its alpha" : "");
  const auto numbers = [&](const std::array<double, 3>& v) { return grey ? format("%g", v[0]) : list_text(v); };
  const char* const whole = read.wide ? "65535" : "255";
  out.done += bytes ? std::string(", 0 to 255") + (read.wide ? " of 65535" : "")
                    : format(", (v / %s - ", whole) + numbers(terms.mean) + ") / " + numbers(terms.std);
  return out;
}

}  // namespace peri::cli
