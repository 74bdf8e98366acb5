package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// apiServer answers with objects as JSON, by the path of the request. A path that is denied has a status instead.
type apiServer struct {
	mu      sync.Mutex
	objects map[string]any
	denied  map[string]int
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	code, answer := http.StatusNotFound, s.objects[r.URL.Path]
	if denied := s.denied[r.URL.Path]; denied != 0 {
		code, answer = denied, nil
	} else if r.Method != http.MethodGet {
		code, answer = s.change(r)
	}
	if answer == nil {
		w.WriteHeader(code)
		reason := map[int]string{http.StatusNotFound: "NotFound", http.StatusForbidden: "Forbidden", http.StatusConflict: "AlreadyExists"}[code]
		answer = object("v1", "Status", map[string]any{"status": "Failure", "reason": reason, "code": code, "message": "no: " + r.URL.Path})
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// change replaces an object, adds one to a list, or deletes one from a list. It returns the object, or a status.
func (s *apiServer) change(r *http.Request) (code int, answer any) {
	path := r.URL.Path
	if r.Method == http.MethodDelete {
		path = filepath.Dir(path)
	}
	known := s.objects[path]
	if known == nil {
		return http.StatusNotFound, nil
	}
	list, _ := known.(map[string]any)
	items, isList := list["items"].([]any)
	named := func(name string) int {
		return slices.IndexFunc(items, func(item any) bool { return item.(map[string]any)["metadata"].(map[string]any)["name"] == name })
	}
	if r.Method == http.MethodDelete {
		at := named(filepath.Base(r.URL.Path))
		if at < 0 {
			return http.StatusNotFound, nil
		}
		answer, list["items"] = items[at], slices.Delete(slices.Clone(items), at, at+1)
		return 0, answer
	}
	if r.Method == http.MethodPost && !isList { // a review, which is answered
		return 0, known
	}
	body, err := io.ReadAll(r.Body)
	var changed runtime.Object
	if err == nil {
		changed, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	}
	var made map[string]any
	if err == nil {
		made, err = runtime.DefaultUnstructuredConverter.ToUnstructured(changed)
	}
	switch {
	case err != nil:
		return http.StatusBadRequest, nil
	case !isList:
		s.objects[path] = made
	case named(made["metadata"].(map[string]any)["name"].(string)) >= 0:
		return http.StatusConflict, nil
	default:
		list["items"] = append(items, made)
	}
	return 0, made
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
