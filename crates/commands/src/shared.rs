//! The types and functions that most commands use, so that they can import them from one place.

pub(crate) use crate::client::{Answer, Client};
pub(crate) use crate::exit::{Exit, Failure};
pub(crate) use crate::flags::{Agreed, OverMcp, Paging, Span, Unasked, action_id, one_of};
pub(crate) use crate::output::{Cell, Column, Record, Table, Terminal};
pub(crate) use crate::resource::{self, Asked, Field, Named, Names, Resource, View, id_of, maybe, maybe_id_of, text};
pub(crate) use crate::setting::Setting;
pub(crate) use crate::style::{Tone, clean, counted, word};
