package node

import (
	"context"
	"os"
	"path/filepath"
)

// dump shows what helps to understand a failure.
func (n *node) dump() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	show := func(what, name string, args ...string) {
		out, err := run(ctx, name, args...)
		if err != nil {
			out = err.Error()
		}
		n.Logf("--- %s\n%s", what, tail(out, 8000))
	}
	show("pods", "kubectl", "get", "pods", "--all-namespaces", "--output=wide")
	show("events", "kubectl", "get", "events", "--all-namespaces", "--sort-by=.lastTimestamp")
	if n.installed {
		for _, dir := range runDirs() {
			show("accelmux status", filepath.Join(bin, "accelmux"), "status", "--run-dir="+dir)
			show("accelmux devices", filepath.Join(bin, "accelmux"), "devices", "--run-dir="+dir)
		}
		logs := []string{"--namespace=" + namespace, "logs", "--selector=app.kubernetes.io/name=accelmux", "--prefix", "--tail=200"}
		show("the agents' logs", "kubectl", logs...)
		show("the logs of the containers before them", "kubectl", append(logs, "--previous")...)
	}
	log, err := os.ReadFile(filepath.Join(state, "log/kubelet.log"))
	if err != nil {
		log = []byte(err.Error())
	}
	n.Logf("--- kubelet's log\n%s", tail(string(log), 8000))
}

// tail is the end of a long text.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "...\n" + text[len(text)-n:]
}
