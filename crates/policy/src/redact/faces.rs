//! Pictures in params: frontal faces are painted over, and everything but the pixels is dropped, such as locations and thumbnails. Faces
//! are blackened and not blurred, because blur can be undone. A picture that cannot be checked is reported as such.
//! SECURITY: decoders and the detector read untrusted data. Their panics are caught here; but a caller that has faces removed must do so
//! where a crash costs only one call.

use super::text::{BASE64, BASE64_URL};
use super::unreadable::Because;
use crate::limits::{
    REDACTION_IMAGE_BYTES_MAX, REDACTION_IMAGE_BYTES_MIN, REDACTION_IMAGE_PIXELS_MAX, REDACTION_IMAGES_MAX, REDACTION_IMAGES_PIXELS_MAX,
};
use base64::Engine as _;
use base64::engine::general_purpose;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgba};
use regex::Regex;
use rustface::ImageData;
use std::io::Cursor;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

/// The place of a picture's base64 in a text.
pub(super) struct Picture<'t> {
    pub(super) range: Range<usize>,
    base64: &'t str,
}

/// The picture after painting, and how many faces were painted over.
pub(super) struct Painted {
    pub(super) base64: String,
    pub(super) faces: usize,
}

/// How many pictures and pixels one call may still use.
pub(super) struct Budget {
    pictures: u32,
    pixels: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { pictures: REDACTION_IMAGES_MAX, pixels: REDACTION_IMAGES_PIXELS_MAX }
    }
}

impl Budget {
    fn spend(&mut self, pixels: u64) -> Result<(), Because> {
        let pictures = self.pictures.checked_sub(1).ok_or(Because::OverBudget)?;
        let left = self.pixels.checked_sub(pixels).filter(|_| pixels <= REDACTION_IMAGE_PIXELS_MAX).ok_or(Because::OverBudget)?;
        (self.pictures, self.pixels) = (pictures, left);
        Ok(())
    }
}

/// Every picture in a text: after `data:image/…;base64,` wherever that stands, or the whole text if its bytes begin like a picture.
pub(super) fn find(text: &str) -> Vec<Picture<'_>> {
    let Some(pattern) = DATA_URL.as_ref().filter(|_| text.len() > "data:image/".len()) else {
        return Vec::new();
    };
    let pictures = pattern.captures_iter(text).filter_map(|captures| captures.name("base64"));
    let found: Vec<_> = pictures.map(|found| Picture { range: found.range(), base64: found.as_str() }).collect();
    if found.is_empty() && is_bare_picture(text) { vec![Picture { range: 0..text.len(), base64: text }] } else { found }
}

/// A data URL may have parameters between the media type and the encoding.
static DATA_URL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)data:image/[a-z0-9.+\-]{1,32}(?:;[a-z0-9=_.\-]{1,64}){0,4};base64,(?<base64>[a-z0-9+/_\-\s%]*={0,2})").ok()
});

fn is_bare_picture(text: &str) -> bool {
    if text.len() < REDACTION_IMAGE_BYTES_MIN / 3 * 4 {
        return false;
    }
    let head: String = text.chars().filter(|character| !character.is_whitespace()).take(16).collect();
    let is_base64 = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"+/=-_".contains(&byte));
    is_base64 && decoded(&head).is_some_and(|head| is_picture(&head))
}

/// Recognises also pictures that cannot be decoded here, because they must not pass as something else.
fn is_picture(head: &[u8]) -> bool {
    let is_known = head.starts_with(b"\x89PNG\r\n") || head.starts_with(b"\xFF\xD8\xFF") || head.starts_with(b"GIF8");
    let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    let is_other = head.starts_with(b"II*\0") || head.starts_with(b"MM\0*");
    let is_heif =
        head.get(4..8) == Some(b"ftyp") && [&b"heic"[..], b"heix", b"mif1", b"avif"].contains(&head.get(8..12).unwrap_or_default());
    is_known || is_webp || is_other || is_heif
}

/// Paints over the faces of a picture and encodes it again in its own format. Of an animated picture, only the first frame is kept.
pub(super) fn paint_over(picture: &Picture, budget: &mut Budget) -> Result<Painted, Because> {
    if picture.base64.len() / 4 * 3 > REDACTION_IMAGE_BYTES_MAX {
        return Err(Because::OverBudget);
    }
    let bytes = decoded(picture.base64).ok_or(Because::Undecodable)?;
    let painted = catch_unwind(AssertUnwindSafe(|| painted(&bytes, budget))).unwrap_or(Err(Because::Undecodable))?;
    let base64 = match painted.bytes {
        Some(bytes) if picture.base64.contains(['-', '_']) => general_purpose::URL_SAFE.encode(bytes),
        Some(bytes) => general_purpose::STANDARD.encode(bytes),
        None => picture.base64.to_owned(),
    };
    Ok(Painted { base64, faces: painted.faces })
}

/// Decodes base64 in either alphabet, wrapped or not, with or without percent-encoding.
fn decoded(base64: &str) -> Option<Vec<u8>> {
    let joined: String = base64.chars().filter(|character| !character.is_whitespace()).collect();
    let joined = if joined.contains('%') {
        joined.replace("%2B", "+").replace("%2b", "+").replace("%2F", "/").replace("%2f", "/").replace("%3D", "=").replace("%3d", "=")
    } else {
        joined
    };
    let engine = if joined.contains(['-', '_']) { BASE64_URL } else { BASE64 };
    engine.decode(joined).ok()
}

struct Rewritten {
    /// `None` if the picture can be sent as it is.
    bytes: Option<Vec<u8>>,
    faces: usize,
}

fn painted(bytes: &[u8], budget: &mut Budget) -> Result<Rewritten, Because> {
    let format = image::guess_format(bytes).ok().filter(|format| FORMATS.contains(format)).ok_or(Because::Undecodable)?;
    let mut picture = decode(bytes, format, budget)?;
    let faces = detect(&picture.to_luma8())?;
    if faces.is_empty() && format == ImageFormat::Jpeg && is_pixels_only(bytes) {
        return Ok(Rewritten { bytes: None, faces: 0 });
    }
    for face in &faces {
        blacken(&mut picture, face);
    }
    let bytes = encode(picture, format).ok_or(Because::Undecodable)?;
    Ok(Rewritten { bytes: Some(bytes), faces: faces.len() })
}

const FORMATS: [ImageFormat; 4] = [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP];

/// Decodes the pixels in the orientation in which a viewer shows them: the detector does not find a face that lies on its side.
fn decode(bytes: &[u8], format: ImageFormat, budget: &mut Budget) -> Result<DynamicImage, Because> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(REDACTION_IMAGE_PIXELS_MAX * 16);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(because)?;
    let (width, height) = decoder.dimensions();
    budget.spend(u64::from(width) * u64::from(height))?;
    let orientation = decoder.orientation().map_err(because)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(because)?;
    picture.apply_orientation(orientation);
    Ok(picture)
}

fn because(error: image::ImageError) -> Because {
    match error {
        image::ImageError::Limits(_) => Because::OverBudget,
        image::ImageError::Decoding(_)
        | image::ImageError::Encoding(_)
        | image::ImageError::Parameter(_)
        | image::ImageError::Unsupported(_)
        | image::ImageError::IoError(_) => Because::Undecodable,
    }
}

/// A box in pixels, within the picture.
#[derive(Clone, Debug, PartialEq)]
struct Face {
    columns: Range<u32>,
    rows: Range<u32>,
}

/// Smaller faces are not found.
const FACE_PIXELS_MIN: u32 = 20;
/// The minimum score of the detector. It is lower than the detector's own value, because a box too many costs less than a missed face.
const SCORE_MIN: f64 = 2.0;

static MODEL: LazyLock<Option<rustface::Model>> =
    LazyLock::new(|| rustface::read_model(&include_bytes!("../../assets/seeta_fd_frontal_v1.0.bin")[..]).ok());

fn detect(picture: &GrayImage) -> Result<Vec<Face>, Because> {
    let (width, height) = picture.dimensions();
    if width < FACE_PIXELS_MIN || height < FACE_PIXELS_MIN {
        return Ok(Vec::new());
    }
    let model = MODEL.as_ref().ok_or(Because::Undecodable)?;
    let mut detector = rustface::create_detector_with_model(model.clone());
    detector.set_min_face_size(FACE_PIXELS_MIN);
    detector.set_score_thresh(SCORE_MIN);
    detector.set_pyramid_scale_factor(0.8);
    detector.set_slide_window_step(4, 4);
    let faces = detector.detect(&ImageData::new(picture.as_raw(), width, height));
    let faces = faces.iter().map(|face| {
        let face = face.bbox();
        Face { columns: padded(face.x(), face.width(), width), rows: padded(face.y(), face.height(), height) }
    });
    Ok(faces.filter(|face| !face.columns.is_empty() && !face.rows.is_empty()).collect())
}

/// One side of a box, extended by 30 % at both ends, within the picture.
fn padded(start: i32, length: u32, end: u32) -> Range<u32> {
    let (start, length, end) = (i64::from(start), i64::from(length), i64::from(end));
    let padding = (length * 3 + 9) / 10;
    let within = |position: i64| u32::try_from(position.clamp(0, end)).unwrap_or_default();
    within(start - padding)..within(start + length + padding)
}

fn blacken(picture: &mut DynamicImage, face: &Face) {
    use image::GenericImage as _;
    for row in face.rows.clone() {
        for column in face.columns.clone() {
            picture.put_pixel(column, row, Rgba([0, 0, 0, 255]));
        }
    }
}

/// Encodes the pixels only, without metadata.
fn encode(picture: DynamicImage, format: ImageFormat) -> Option<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    if format == ImageFormat::Jpeg {
        JpegEncoder::new_with_quality(&mut bytes, 90).encode_image(&DynamicImage::from(picture.to_rgb8())).ok()?;
    } else if format == ImageFormat::Png {
        picture.write_to(&mut bytes, format).ok()?;
    } else {
        DynamicImage::from(picture.to_rgba8()).write_to(&mut bytes, format).ok()?;
    }
    Some(bytes.into_inner())
}

/// Whether a JPEG contains nothing but its picture. Then it is sent as it is, because every new encoding makes it worse.
fn is_pixels_only(jpeg: &[u8]) -> bool {
    let mut at = 2;
    loop {
        let Some(&[0xFF, marker, high, low]) = jpeg.get(at..at + 4).and_then(|head| head.first_chunk()) else {
            return false;
        };
        let is_drawn = matches!(marker, 0xC0..=0xC4 | 0xDB | 0xDD | 0xDA);
        let is_plain_header = marker == 0xE0 && jpeg.get(at + 4..at + 9) == Some(b"JFIF\0") && (high, low) == (0, 16);
        if !is_drawn && !is_plain_header {
            return false;
        }
        if marker == 0xDA {
            // Pixel data contains neither an end marker nor a metadata marker. If a table happens to look like one, the picture is encoded
            // again needlessly.
            let scans = &jpeg[at..];
            let end = scans.windows(2).position(|pair| pair == [0xFF, 0xD9]);
            let is_noted = scans.windows(2).any(|pair| matches!(pair, [0xFF, 0xE0..=0xEF | 0xFE]));
            return !is_noted && end.is_some_and(|end| at + end + 2 == jpeg.len());
        }
        at += 2 + usize::from(u16::from_be_bytes([high, low]));
    }
}

#[cfg(test)]
#[path = "faces_tests.rs"]
mod tests;
