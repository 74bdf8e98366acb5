package status

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/accelmux/accelmux/core/diagram"
)

// topologies answers with what it is asked.
type topologies struct{}

func (topologies) Topology(resource string) ([]diagram.Topology, error) {
	if resource == "a/b c" {
		return nil, errors.New("the node has no resource a/b c")
	}
	return []diagram.Topology{{Resource: resource, Policy: "pack"}}, nil
}

func (topologies) Slices() []*resourceapi.ResourceSlice {
	return []*resourceapi.ResourceSlice{{Spec: resourceapi.ResourceSliceSpec{Driver: "mock.accelmux.io", Devices: []resourceapi.Device{{Name: "mock-0"}}}}}
}

func (topologies) Explain(ctx context.Context, q diagram.Question) (diagram.Choice, error) {
	if _, bounded := ctx.Deadline(); !bounded || q.Size == 0 {
		return diagram.Choice{}, errors.New("ask for 1 unit or more")
	}
	return diagram.Choice{Resource: q.Resource, Size: q.Size, Must: q.Must, Available: q.Available}, nil
}

// Verifies that questions and answers about topology arrive as they are, and mistakes
// as the sentence about them.
func TestTopology(t *testing.T) {
	client := NewClient(serveStatus(t))
	all, err := client.Topology(t.Context(), "example.com/gpu&x=y")
	if err != nil || len(all) != 1 || all[0].Resource != "example.com/gpu&x=y" || all[0].Policy != "pack" {
		t.Errorf("topology %+v, %v", all, err)
	}
	if _, err := client.Topology(t.Context(), "a/b c"); err == nil || err.Error() != "the node has no resource a/b c" {
		t.Errorf("unknown resource: %v", err)
	}
	choice, err := client.Explain(t.Context(), diagram.Question{Resource: "r", Size: 2, Must: []string{"a"}, Available: make([]string, 8192)})
	if err != nil || choice.Resource != "r" || choice.Size != 2 || len(choice.Must) != 1 || len(choice.Available) != 8192 {
		t.Errorf("choice %+v, %v", choice, err)
	}
	if _, err := client.Explain(t.Context(), diagram.Question{}); err == nil || err.Error() != "ask for 1 unit or more" {
		t.Errorf("a mistake: %v", err)
	}
	if published, err := client.Slices(t.Context()); err != nil || len(published) != 1 || published[0].Spec.Devices[0].Name != "mock-0" {
		t.Errorf("slices %+v, %v", published, err)
	}
	if err := client.get(t.Context(), "/v1/unknown", &all); err == nil || !strings.Contains(err.Error(), "older than this command") {
		t.Errorf("an older agent: %v", err)
	}
}

// Verifies that a question is read up to a bound.
func TestHugeQuestion(t *testing.T) {
	body := strings.NewReader(`{"must": ["` + strings.Repeat("x", maxQuestion) + `"]}`)
	answer := httptest.NewRecorder()
	NewServer(t.TempDir(), fixed{}, nil).explain(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/topology/explain", body))
	if answer.Code != http.StatusUnprocessableEntity || !strings.Contains(answer.Body.String(), "cannot be read") {
		t.Errorf("%d %.100s", answer.Code, answer.Body)
	}
}

// Verifies that explanations wait for each other, and not for ever.
func TestOneExplanation(t *testing.T) {
	s := NewServer(t.TempDir(), fixed{}, nil)
	s.explaining <- struct{}{} // somebody else's
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/topology/explain", strings.NewReader(`{"size": 1}`))
	answer := httptest.NewRecorder()
	s.explain(answer, request)
	if answer.Code != http.StatusUnprocessableEntity || !strings.Contains(answer.Body.String(), "busy") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
