// Package events writes Kubernetes Events about the agent's own Node; `kubectl describe node`
// shows them.
//
// client-go's recorder (k8s.io/client-go/tools/record) does the work: it aggregates
// Events of one reason, increments the count of one that it wrote before, and limits
// the rate of each reason. This package adds the Node and a sink that stores
// Events (up to 1,000) until the API server accepts them: an outage or a missing permission
// loses none, and is a problem in the agent's status. Recording an Event does not block, and
// the caller also logs what it records.
package events
