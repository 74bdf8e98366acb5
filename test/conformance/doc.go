// Package conformance runs cmd/accelmux/conformance: this project's own backends pass on their
// doubles, and each rule is failed by a program that breaks it (test/hostile).
package conformance
