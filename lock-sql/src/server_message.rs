//! The message of an error of sqlx, without the text that sqlx puts around it.

use std::fmt;

use sqlx::Error as SqlxError;

/// Shows what the server or the operating system said. sqlx itself begins with the kind of the error, which our own
/// message says already; for PostgreSQL it ends with the line of the server's source code.
pub(crate) struct ServerMessage<'a>(pub(crate) &'a SqlxError);

impl fmt::Display for ServerMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            #[cfg(feature = "postgres")]
            SqlxError::Database(said)
                if said.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() =>
            {
                f.write_str(said.message())
            }
            SqlxError::Database(said) => said.fmt(f),
            SqlxError::Io(said) => said.fmt(f),
            SqlxError::Configuration(said) | SqlxError::Tls(said) => said.fmt(f),
            SqlxError::Protocol(said) => f.write_str(said),
            other => other.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn messages_have_no_text_of_sqlx() {
        let refused = SqlxError::Io(io::Error::other("connection refused"));
        let wrong = SqlxError::Configuration("invalid port number".into());
        assert_eq!(ServerMessage(&refused).to_string(), "connection refused");
        assert_eq!(ServerMessage(&wrong).to_string(), "invalid port number");
        assert_eq!(ServerMessage(&SqlxError::RowNotFound).to_string(), SqlxError::RowNotFound.to_string());
    }
}
