// Package events writes Kubernetes Events about the agent's own Node: what an
// operator finds with `kubectl describe node`.
//
// client-go's recorder (k8s.io/client-go/tools/record) does the work: it aggregates
// Events of one reason, increments the count of one that it wrote before, and limits
// the rate of each reason. This package gives it the Node, and a sink that keeps an
// Event until the API server takes it, so that an outage, or a missing right, loses none
// (up to 1,000 wait) and is a problem in the agent's status. Nothing depends on
// Events: recording one does not wait, and the caller also logs what it records.
//
// The package does not decide what is worth an Event.
package events
