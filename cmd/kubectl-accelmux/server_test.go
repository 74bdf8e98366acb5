package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// apiServer answers with objects as JSON, by the path of the request. A path with an error has a status instead.
type apiServer struct {
	mu      sync.Mutex
	objects map[string]any
	denied  map[string]int
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	code, denied := s.denied[r.URL.Path]
	known, found := s.objects[r.URL.Path]
	switch {
	case denied:
	case !found:
		code = http.StatusNotFound
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		var changed runtime.Object
		if err == nil {
			changed, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		}
		if err != nil {
			code = http.StatusBadRequest
			break
		}
		s.objects[r.URL.Path], known = changed, changed
		fallthrough
	default:
		_ = json.NewEncoder(w).Encode(known)
		return
	}
	reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden"}[code]
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object("v1", "Status", map[string]any{"status": "Failure", "reason": reason, "code": code, "message": "no: " + r.URL.Path}))
}

// object returns one with its type; more are its other fields.
func object(version, kind string, more map[string]any) map[string]any {
	made := map[string]any{"apiVersion": version, "kind": kind}
	for key, value := range more {
		made[key] = value
	}
	return made
}

func listOf(version, kind string, items ...any) map[string]any {
	return object(version, kind+"List", map[string]any{"metadata": map[string]any{}, "items": items})
}

func meta(namespace, name string) map[string]any {
	m := map[string]any{"name": name}
	if namespace != "" {
		m["namespace"] = namespace
	}
	return m
}

// run executes the plugin against the server, in the namespace team.
func (s *apiServer) run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := "{clusters: [{name: c, cluster: {server: '" + server.URL + "'}}], contexts: [{name: c, context: {cluster: c, namespace: team}}], current-context: c}"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	command := newRootCommand()
	command.SetArgs(append(args, "--kubeconfig="+kubeconfig))
	command.SetOut(&out)
	command.SetErr(&errs)
	err = command.ExecuteContext(t.Context())
	return untrailed(out.String()), errs.String(), err
}

// untrailed returns text without the spaces at the ends of lines.
func untrailed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}
