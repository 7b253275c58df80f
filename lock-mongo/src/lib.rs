//! Locks on MongoDB.
