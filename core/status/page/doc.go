// Package page shows a node in a browser: its problems, devices with their health, holders and
// measurements, links, resources, and what changed lately. It is one HTML page that needs no script,
// no other file and no network, made for each request. It changes nothing.
//
// Names of pods, containers and claims are shown only to a reader on this machine or by `kubectl
// port-forward`; see mayName.
//
// It does not serve a port (package status does), and stores nothing but the latest measurements, in
// memory and only while the page is read; see samples.
package page
