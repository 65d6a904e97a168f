//! Tests with pictures, all drawn here: a face that the detector recognises, and things that are none.

use super::*;
use crate::redact::{Kind, Outgoing, Redaction, Unreadable, redact_params};
use image::{Rgb, RgbImage};
use serde_json::{Value, json};

const SIDE: u32 = 280;
/// How far from the corner of the picture the face is drawn.
const MARGIN: u32 = 40;

/// Paints an ellipse. `shade` gets the position of a pixel in it, from -1 to 1 in both directions, and the pixel's old value.
fn ellipse(picture: &mut RgbImage, center: (f32, f32), radii: (f32, f32), shade: impl Fn(f32, f32, f32) -> f32) {
    for (x, y, pixel) in picture.enumerate_pixels_mut() {
        let (x, y) = (x as f32 - MARGIN as f32, y as f32 - MARGIN as f32);
        let (across, down) = ((x - center.0) / radii.0, (y - center.1) / radii.1);
        if across * across + down * down <= 1.0 {
            *pixel = Rgb([shade(across, down, f32::from(pixel.0[0])).clamp(0.0, 255.0) as u8; 3]);
        }
    }
}

/// A simple drawing of a face, with shading.
fn face() -> RgbImage {
    let mut picture = RgbImage::from_pixel(SIDE, SIDE, Rgb([60; 3]));
    ellipse(&mut picture, (100.0, 90.0), (62.0, 72.0), |_, _, _| 40.0);
    ellipse(&mut picture, (100.0, 180.0), (30.0, 40.0), |_, _, _| 120.0);
    ellipse(&mut picture, (100.0, 100.0), (50.0, 65.0), |across, down, _| 150.0 * (1.05 - 0.22 * across * across - 0.08 * down.abs()));
    for side in [-1.0, 1.0] {
        let eye = 100.0 + side * 21.0;
        ellipse(&mut picture, (eye, 88.0), (15.0, 11.0), |across, down, under| under * (0.72 + 0.28 * (across * across + down * down)));
        ellipse(&mut picture, (eye, 74.0), (15.0, 3.5), |_, _, _| 80.0);
        ellipse(&mut picture, (eye, 88.0), (10.0, 5.0), |_, _, _| 100.0);
        ellipse(&mut picture, (eye, 88.0), (5.0, 5.0), |_, _, _| 60.0);
        ellipse(&mut picture, (100.0 + side * 6.0, 118.0), (4.0, 2.5), |_, _, _| 90.0);
        ellipse(&mut picture, (100.0 + side * 9.0, 104.0), (3.0, 16.0), |_, _, under| under * 0.88);
    }
    ellipse(&mut picture, (100.0, 136.0), (19.0, 6.0), |_, _, _| 90.0);
    ellipse(&mut picture, (100.0, 136.0), (17.0, 1.6), |_, _, _| 60.0);
    picture
}

/// A gradient with a pattern of bricks.
fn no_face() -> RgbImage {
    RgbImage::from_fn(SIDE, SIDE, |x, y| Rgb([(x + y) as u8, if (x / 20 + y / 10) % 2 == 0 { 200 } else { 90 }, y as u8]))
}

fn written(picture: &RgbImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let picture = DynamicImage::from(picture.clone());
    let picture = if format == ImageFormat::Gif { DynamicImage::from(picture.to_rgba8()) } else { picture };
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn data_url(bytes: &[u8], format: ImageFormat) -> String {
    format!("data:{};base64,{}", format.to_mime_type(), general_purpose::STANDARD.encode(bytes))
}

fn redacted(params: &Value) -> Outgoing {
    redact_params(params, &Redaction { kinds: [Kind::Face, Kind::Email].into(), regions: vec![] }, &[])
}

fn read(text: &str) -> RgbImage {
    let base64 = text.rsplit(',').next().unwrap();
    image::load_from_memory(&general_purpose::STANDARD.decode(base64).unwrap()).unwrap().to_rgb8()
}

/// Whether the pixel at these coordinates of the face is black.
fn is_black(picture: &RgbImage, x: u32, y: u32) -> bool {
    picture.get_pixel(x + MARGIN, y + MARGIN).0.iter().all(|channel| *channel < 12)
}

/// Inserts a segment right after the start of a JPEG, where cameras write place and time.
fn with_segment(jpeg: &[u8], marker: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len() + 2).unwrap().to_be_bytes();
    [&jpeg[..2], &[0xFF, marker], &length, content, &jpeg[2..]].concat()
}

/// A minimal Exif segment that gives the orientation of a picture.
fn turned(orientation: u8) -> Vec<u8> {
    let entry = [0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0];
    [&b"Exif\0\0MM\0*\0\0\0\x08\0\x01"[..], &entry, &[0; 4], b"GPS 51.5 N 0.1 W"].concat()
}

fn holds(text: &str, needle: &[u8]) -> bool {
    let bytes = general_purpose::STANDARD.decode(text.rsplit(',').next().unwrap()).unwrap();
    bytes.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn a_face_is_painted_over_in_every_format_which_stays() {
    for format in FORMATS {
        let outgoing = redacted(&json!({ "photo": data_url(&written(&face(), format), format) }));
        assert_eq!(outgoing.counts.get(&Kind::Face), Some(&1), "{format:?}");
        assert_eq!((outgoing.map.as_slice(), outgoing.unreadable.as_slice()), (&[][..], &[][..]));
        let text = outgoing.value["photo"].as_str().unwrap();
        assert!(text.starts_with(&format!("data:{};base64,", format.to_mime_type())));
        let painted = read(text);
        assert_eq!(painted.dimensions(), (SIDE, SIDE));
        for (x, y) in [(79, 88), (121, 88), (100, 104), (100, 136), (100, 60), (60, 100), (140, 100), (100, 155)] {
            assert!(is_black(&painted, x, y), "{format:?} at {x}, {y}");
        }
        assert!(painted.get_pixel(2, 2).0[0] > 40 && painted.get_pixel(SIDE - 2, SIDE - 2).0[0] > 40, "{format:?}");
        let again = redacted(&outgoing.value);
        assert_eq!((again.value, again.counts), (outgoing.value, [].into()), "{format:?}");
    }
}

#[test]
fn a_picture_without_a_face_keeps_its_pixels() {
    for format in [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Jpeg] {
        let bytes = written(&no_face(), format);
        let outgoing = redacted(&json!([data_url(&bytes, format)]));
        assert_eq!((outgoing.counts.len(), outgoing.unreadable.len()), (0, 0));
        assert_eq!(read(outgoing.value[0].as_str().unwrap()), image::load_from_memory(&bytes).unwrap().to_rgb8(), "{format:?}");
    }
}

#[test]
fn a_picture_is_found_in_the_middle_of_a_text_and_without_anything_around_it() {
    let png = written(&face(), ImageFormat::Png);
    let bare = general_purpose::STANDARD.encode(&png);
    let wrapped = bare.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>().join("\r\n");
    for text in [bare.clone(), wrapped, general_purpose::URL_SAFE_NO_PAD.encode(&png)] {
        let outgoing = redacted(&json!({ "content": text }));
        assert_eq!(outgoing.counts.get(&Kind::Face), Some(&1));
    }
    let url = data_url(&png, ImageFormat::Png);
    let outgoing = redacted(&json!(format!("jane@example.com: ![a]({url}) and ![b]({url}), jane@example.com")));
    assert_eq!(outgoing.counts, [(Kind::Email, 2), (Kind::Face, 2)].into());
    let text = outgoing.value.as_str().unwrap();
    assert!(text.starts_with("<EMAIL_1>: ![a](data:image/png;base64,") && text.ends_with("), <EMAIL_1>") && !text.contains(&bare));
}

#[test]
fn where_and_when_a_picture_was_taken_is_dropped() {
    for picture in [face(), no_face()] {
        let jpeg = with_segment(&written(&picture, ImageFormat::Jpeg), 0xE1, &turned(1));
        let jpeg = with_segment(&jpeg, 0xFE, b"by jane at home");
        let text = data_url(&jpeg, ImageFormat::Jpeg);
        assert!(holds(&text, b"GPS 51.5 N") && holds(&text, b"jane at home"));
        let outgoing = redacted(&json!({ "a": text }));
        let text = outgoing.value["a"].as_str().unwrap();
        assert!(!holds(text, b"GPS 51.5 N") && !holds(text, b"Exif") && !holds(text, b"jane at home"));
    }
    let trailing = [written(&no_face(), ImageFormat::Jpeg), b"jane at home".to_vec()].concat();
    let outgoing = redacted(&json!([data_url(&trailing, ImageFormat::Jpeg)]));
    assert!(!holds(outgoing.value[0].as_str().unwrap(), b"jane at home"));
}

#[test]
fn a_picture_is_turned_as_its_viewer_would_before_it_is_looked_at() {
    let lying = image::imageops::rotate270(&face());
    let jpeg = with_segment(&written(&lying, ImageFormat::Jpeg), 0xE1, &turned(6));
    let outgoing = redacted(&json!([data_url(&jpeg, ImageFormat::Jpeg)]));
    assert_eq!(outgoing.counts.get(&Kind::Face), Some(&1));
    assert!(is_black(&read(outgoing.value[0].as_str().unwrap()), 79, 88));
}

#[test]
fn what_cannot_be_looked_into_is_said_to_be_so_and_left_as_it_is() {
    let png = written(&no_face(), ImageFormat::Png);
    let mut huge = png.clone();
    huge[16..24].copy_from_slice(&[0, 0, 0x40, 0, 0, 0, 0x40, 0]);
    let svg = general_purpose::STANDARD.encode("<svg xmlns='http://www.w3.org/2000/svg'/>");
    for (text, because) in [
        (data_url(&png[..png.len() / 2], ImageFormat::Png), Because::Undecodable),
        (data_url(b"no picture at all", ImageFormat::Jpeg), Because::Undecodable),
        ("data:image/png;base64,".to_owned(), Because::Undecodable),
        (format!("data:image/svg+xml;base64,{svg}"), Because::Undecodable),
        (general_purpose::STANDARD.encode([&b"\0\0\0\x18ftypheic"[..], &[7; 2_000]].concat()), Because::Undecodable),
        (general_purpose::STANDARD.encode([&b"\xFF\xD8\xFF\xE0"[..], &[7; 2_000]].concat()), Because::Undecodable),
        (data_url(&with_size(&huge), ImageFormat::Png), Because::OverBudget),
        (data_url(&vec![7; REDACTION_IMAGE_BYTES_MAX + 3], ImageFormat::Png), Because::OverBudget),
    ] {
        let params = json!({ "a": ["x", text] });
        let outgoing = redacted(&params);
        assert_eq!(outgoing.unreadable, [Unreadable { pointer: "/a/1".to_owned(), because }]);
        assert_eq!(outgoing.value, params);
    }
}

/// Recomputes the checksum after the width and height were overwritten.
fn with_size(png: &[u8]) -> Vec<u8> {
    let mut crc = u32::MAX;
    for byte in &png[12..29] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    [&png[..29], &(!crc).to_be_bytes(), &png[33..]].concat()
}

#[test]
fn all_pictures_of_a_call_share_one_budget() {
    let small = data_url(&written(&RgbImage::new(4, 4), ImageFormat::Png), ImageFormat::Png);
    let outgoing = redacted(&json!(vec![small; REDACTION_IMAGES_MAX as usize + 1]));
    let last = Unreadable { pointer: format!("/{REDACTION_IMAGES_MAX}"), because: Because::OverBudget };
    assert_eq!(outgoing.unreadable, [last]);
}

#[test]
fn what_is_no_picture_is_not_taken_for_one() {
    let long = general_purpose::STANDARD.encode([b'x'; 3_000]);
    let short = general_purpose::STANDARD.encode([&b"\x89PNG\r\n"[..], &[0; 100]].concat());
    let params = json!(["", "data:", "data:image/png", "data:text/plain;base64,SGVsbG8=", "data:image/svg+xml;utf8,<svg/>", long, short]);
    let outgoing = redacted(&params);
    assert_eq!((outgoing.value, outgoing.unreadable), (params, vec![]));
}

#[test]
fn a_box_grows_by_a_third_on_every_side_and_stays_in_the_picture() {
    for (start, length, end, expected) in
        [(50, 100, 1_000, 20..180), (10, 100, 1_000, 0..140), (-20, 100, 1_000, 0..110), (950, 100, 1_000, 920..1_000), (0, 20, 20, 0..20)]
    {
        assert_eq!(padded(start, length, end), expected);
    }
}

#[test]
fn pixels_of_any_depth_are_painted() {
    let face = DynamicImage::from(face());
    for picture in [face.clone(), face.to_luma8().into(), face.to_rgba16().into(), face.to_luma_alpha8().into()] {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
        let outgoing = redacted(&json!([data_url(bytes.get_ref(), ImageFormat::Png)]));
        assert_eq!(outgoing.counts.get(&Kind::Face), Some(&1));
        assert!(is_black(&read(outgoing.value[0].as_str().unwrap()), 100, 100));
    }
}

/// A picture that is cut off or has flipped bytes is either decoded or reported as unreadable.
#[test]
fn a_broken_picture_never_panics() {
    for format in FORMATS {
        let bytes = written(&face(), format);
        for at in (0..bytes.len()).step_by(bytes.len() / 12) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x5A;
            redacted(&json!([data_url(&flipped, format), data_url(&bytes[..at], format)]));
        }
    }
}
