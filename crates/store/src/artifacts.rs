//! The rows of artifacts: what calls and runs made beside their results. The bytes are behind another port, `Blobs`.

use crate::db::{Columns, Row, Tx, Val, all, only, vals};
use crate::orgs::places;
use crate::{Error, Page, PageRequest, Store, page};
use countersign_core::artifact::{Artifact, ArtifactKind, ArtifactRetention, Visibility};
use countersign_core::ledger::NewArtifact;
use countersign_core::limits::ARTIFACT_TRANSIENT_SECONDS;
use countersign_core::ports::Artifacts;
use countersign_core::{ArtifactId, Digest, Future, InvocationId, OrgId, PrincipalId, RunId, SessionId, SpaceId, Timestamp, UserId};
use std::collections::BTreeSet;

macro_rules! select_artifact {
    () => {
        "SELECT id, org_id, space_id, session_id, owner_id, run_id, invocation_id, name, kind, media_type, size, sha256, retention, visibility,
         created_at, expires_at, quarantined_at, quarantined_by FROM artifacts WHERE org_id = $1"
    };
}

/// Which artifacts to list; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactFilter {
    pub run: Option<RunId>,
    pub invocation: Option<InvocationId>,
    /// Only those that were made in this session.
    pub session: Option<SessionId>,
    /// Spaces that do not exist for whoever asks. What was made in one of them is listed only if it is shared.
    pub hidden: BTreeSet<SpaceId>,
    pub private: Private,
}

/// Which private artifacts are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Private {
    #[default]
    All,
    /// Those that were made for this person.
    Of(UserId),
    None,
}

impl Artifacts for Store {
    fn add_artifact(&self, new: NewArtifact) -> Future<'_, Result<Artifact, Error>> {
        Box::pin(self.db.write(new.org.clone(), move |tx| Box::pin(async move { add_in(tx, new).await })))
    }

    fn find_artifact<'a>(&'a self, org: &'a OrgId, artifact: &'a ArtifactId) -> Future<'a, Result<Option<Artifact>, Error>> {
        Box::pin(async move {
            let sql = concat!(select_artifact!(), " AND id = $2");
            only(self.db.read(sql, &vals![org.as_str(), artifact.as_str()]).await?, read_artifact)
        })
    }

    fn list_expired_artifacts<'a>(
        &'a self,
        org: &'a OrgId,
        after: Option<&'a ArtifactId>,
        limit: u32,
    ) -> Future<'a, Result<Vec<Artifact>, Error>> {
        Box::pin(async move {
            let (now, retention) = (self.db.now().await?, self.find_retention(org).await?);
            let calls_from = retention.calls_from(now).unwrap_or(Timestamp::from_micros(0));
            // A run reads what its steps made until it has ended. A space that keeps digests only keeps bytes for a day.
            let sql = concat!(
                select_artifact!(),
                " AND removed_at IS NULL AND (expires_at <= $2 OR created_at < $3
                   OR (created_at <= $4 AND space_id IN (SELECT id FROM spaces WHERE org_id = $1 AND keeps = 'digests')))
                  AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.org_id = $1 AND runs.id = artifacts.run_id AND runs.ended_at IS NULL)
                  AND id > $5 ORDER BY id LIMIT $6"
            );
            let params = vals![
                org.as_str(),
                now,
                calls_from,
                now.minus_seconds(ARTIFACT_TRANSIENT_SECONDS),
                after.map_or("", ArtifactId::as_str),
                i64::from(limit)
            ];
            all(self.db.read(sql, &params).await?, read_artifact)
        })
    }

    fn forget_artifact<'a>(&'a self, org: &'a OrgId, artifact: &'a ArtifactId) -> Future<'a, Result<(), Error>> {
        let (org, artifact) = (org.clone(), artifact.clone());
        Box::pin(self.db.write(org.clone(), move |tx| {
            Box::pin(async move {
                let sql = "UPDATE artifacts SET removed_at = $1 WHERE org_id = $2 AND id = $3 AND quarantined_at IS NOT NULL";
                tx.exec(sql, &vals![tx.now(), org.as_str(), artifact.as_str()]).await?;
                let sql = "DELETE FROM artifacts WHERE org_id = $1 AND id = $2 AND quarantined_at IS NULL";
                tx.exec(sql, &vals![org.as_str(), artifact.as_str()]).await.map(|_| ())
            })
        }))
    }
}

impl Store {
    /// Lists artifacts that are still there, newest first. Those in quarantine are among them.
    pub async fn list_artifacts(&self, org: &OrgId, filter: &ArtifactFilter, request: &PageRequest) -> Result<Page<Artifact>, Error> {
        let mut params = vals![
            org.as_str(),
            filter.run.as_ref().map_or("", RunId::as_str),
            filter.invocation.as_ref().map_or("", InvocationId::as_str),
            filter.session.as_ref().map_or("", SessionId::as_str),
            self.db.now().await?,
            request.after.as_deref().unwrap_or("~")
        ]
        .to_vec();
        let which = concat!(
            select_artifact!(),
            " AND (run_id = $2 OR $2 = '') AND (invocation_id = $3 OR $3 = '') AND (session_id = $4 OR $4 = '')
              AND (quarantined_at IS NOT NULL OR expires_at IS NULL OR expires_at > $5) AND id < $6"
        );
        let seen = match places(filter.hidden.iter().map(SpaceId::as_str), &mut params) {
            Some(hidden) => format!(" AND (visibility = 'shared' OR space_id NOT IN ({hidden}))"),
            None => String::new(),
        };
        let own = match &filter.private {
            Private::All => String::new(),
            Private::Of(person) => {
                params.push(Val::from(person.as_str()));
                format!(" AND (visibility <> 'private' OR owner_id = ${})", params.len())
            }
            Private::None => " AND visibility <> 'private'".to_owned(),
        };
        params.push(Val::from(i64::from(request.limit) + 1));
        let sql = format!("{which}{seen}{own} ORDER BY id DESC LIMIT ${}", params.len());
        page(self.db.read(&sql, &params).await?, request.limit, read_artifact, |artifact| artifact.id.to_string())
    }

    /// Takes the bytes of an artifact away from everybody; what is known of it stays. The first who does so is remembered.
    pub async fn quarantine_artifact(&self, org: &OrgId, artifact: &ArtifactId, by: &PrincipalId) -> Result<Option<Artifact>, Error> {
        let (org, artifact, by) = (org.clone(), artifact.clone(), by.clone());
        self.db
            .write(org.clone(), move |tx| {
                Box::pin(async move {
                    let sql = "UPDATE artifacts SET quarantined_at = $1, quarantined_by = $2
                               WHERE org_id = $3 AND id = $4 AND quarantined_at IS NULL";
                    tx.exec(sql, &vals![tx.now(), by.to_string(), org.as_str(), artifact.as_str()]).await?;
                    find_in(tx, &org, &artifact).await
                })
            })
            .await
    }
}

async fn add_in(tx: &mut Tx, new: NewArtifact) -> Result<Artifact, Error> {
    let now = tx.now();
    let sql =
        "INSERT INTO artifacts (org_id, id, space_id, session_id, owner_id, run_id, invocation_id, name, kind, media_type, size, sha256,
                 retention, visibility, created_at, expires_at)
               VALUES ($1, $2, $3, $4, (SELECT owner_id FROM sessions WHERE org_id = $1 AND id = $4),
                 (SELECT id FROM runs WHERE org_id = $1 AND session_id = $4), $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    let params = vals![
        new.org.as_str(),
        new.id.as_str(),
        new.space.as_str(),
        new.session.as_str(),
        new.invocation.as_ref().map(InvocationId::as_str),
        new.name.as_str(),
        ArtifactKind::of_media_type(&new.media_type).as_str(),
        new.media_type.as_str(),
        i64::try_from(new.size).unwrap_or(i64::MAX),
        new.sha256.to_string(),
        new.retention.as_str(),
        new.visibility.as_str(),
        now,
        new.retention.ends(now)
    ];
    tx.exec(sql, &params).await?;
    let added = find_in(tx, &new.org, &new.id).await?;
    added.ok_or_else(|| Error::Corrupt { message: format!("artifact `{}` is not there after it was added", new.id) })
}

async fn find_in(tx: &mut Tx, org: &OrgId, artifact: &ArtifactId) -> Result<Option<Artifact>, Error> {
    let sql = concat!(select_artifact!(), " AND id = $2");
    only(tx.query(sql, &vals![org.as_str(), artifact.as_str()]).await?, read_artifact)
}

fn read_artifact(row: Row) -> Result<Artifact, Error> {
    let mut columns = Columns::of(row);
    Ok(Artifact {
        id: columns.id()?,
        org: columns.id()?,
        space: columns.id()?,
        session: columns.id()?,
        owner: columns.id_or_null()?,
        run: columns.id_or_null()?,
        invocation: columns.id_or_null()?,
        name: columns.text()?,
        kind: columns.parsed(ArtifactKind::parse)?,
        media_type: columns.text()?,
        size: u64::try_from(columns.int()?).unwrap_or(0),
        sha256: columns.parsed(Digest::parse)?,
        retention: columns.parsed(ArtifactRetention::parse)?,
        visibility: columns.parsed(Visibility::parse)?,
        created_at: columns.time()?,
        expires_at: columns.time_or_null()?,
        quarantined_at: columns.time_or_null()?,
        quarantined_by: columns.parsed_or_null(PrincipalId::parse)?,
    })
}
