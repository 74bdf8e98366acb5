// Package apiserver is a stand-in API server: it serves the resources that it is given over HTTP,
// in JSON, in the protocol of the real one: create, get, list, watch (from a version, or with the
// objects that there are), update, the status by itself, strategic merge patches, deletion of one or
// of many, field selectors, dry runs. What a real server does with an object before it stores it is
// in the resource's hooks.
//
// It has no authentication, admission, finalizers, garbage collection or pages, and forgets nothing
// until it ends.
package apiserver
