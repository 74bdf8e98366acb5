package node

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// wantEvent waits for an Event of the agent about the node, written since the test
// began, whose message has the text in it.
func (n *node) wantEvent(reason, text string) {
	n.Helper()
	about := fields.Set{"involvedObject.kind": "Node", "reason": reason}.AsSelector()
	n.waitEvent(metav1.NamespaceDefault, about, "about the node: "+reason, text)
}

// wantPodEvent waits for an Event of kubelet about a pod.
func (n *node) wantPodEvent(pod, reason, text string) {
	n.Helper()
	about := fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": pod, "reason": reason}.AsSelector()
	n.waitEvent(pods, about, "about the pod "+pod+": "+reason, text)
}

func (n *node) waitEvent(namespace string, about fields.Selector, what, text string) {
	n.Helper()
	var seen []string
	_, err := until(n.soon(), client.CoreV1().Events(namespace), about, func(event *v1.Event) bool {
		if event.LastTimestamp.Time.Before(n.began) && event.EventTime.Time.Before(n.began) {
			return false
		}
		seen = append(seen, event.Message)
		return strings.Contains(event.Message, text)
	})
	if err != nil {
		n.Fatalf("no Event %s with %q: %v; seen: %q", what, text, err, seen)
	}
}
