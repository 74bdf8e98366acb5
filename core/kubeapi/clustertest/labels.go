package clustertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var nodes = schema.GroupResource{Resource: "nodes"}

// Labels are those of the Node; nil if there is none.
func (s *Server) Labels() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		return nil
	}
	return maps.Clone(s.node.Labels)
}

// AddLabels sets labels beside those that are there; what was applied to one of
// them is theirs from now on. An empty value removes the label.
func (s *Server) AddLabels(labels map[string]string) {
	all := s.Labels()
	for name, value := range labels {
		all[name] = value
		if value == "" {
			delete(all, name)
		}
	}
	s.mu.Lock()
	for name := range labels {
		delete(s.applied, name)
	}
	s.change(all)
	s.mu.Unlock()
}

// get answers with the Node's metadata.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil || r.PathValue("name") != s.name {
		fail(w, apierrors.NewNotFound(nodes, r.PathValue("name")))
		return
	}
	answer(w, http.StatusOK, s.node)
}

// apply is server-side apply, for labels and one manager; everybody else is another.
func (s *Server) apply(w http.ResponseWriter, r *http.Request) {
	var body metav1.PartialObjectMetadata
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&body)
	query := r.URL.Query()
	switch {
	case err != nil, r.Header.Get("Content-Type") != string(types.ApplyPatchType), query.Get("fieldManager") == "":
		fail(w, apierrors.NewBadRequest(fmt.Sprintf("not an apply: %v, %s", err, query)))
		return
	case body.Kind != "Node", body.APIVersion != "v1", body.Name != r.PathValue("name"):
		fail(w, apierrors.NewBadRequest("the object is another"))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil || body.UID != s.node.UID {
		fail(w, apierrors.NewConflict(nodes, body.Name, fmt.Errorf("uid mismatch: the provided object specified uid %s", body.UID)))
		return
	}
	if causes := s.conflicts(body.Labels); len(causes) > 0 && query.Get("force") != "true" {
		fail(w, apierrors.NewApplyConflict(causes, fmt.Sprintf("Apply failed with %d conflict(s)", len(causes))))
		return
	}
	labels := maps.Clone(s.node.Labels)
	maps.DeleteFunc(labels, func(name, _ string) bool { return s.applied[name] })
	s.applied = map[string]bool{}
	for name, value := range body.Labels {
		if _, theirs := labels[name]; !theirs {
			s.applied[name] = true
		}
		labels[name] = value
	}
	if !maps.Equal(labels, s.node.Labels) {
		s.change(labels)
	}
	answer(w, http.StatusOK, s.node)
}

// conflicts are the labels that others have set to another value.
func (s *Server) conflicts(labels map[string]string) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if value, there := s.node.Labels[name]; there && !s.applied[name] && value != labels[name] {
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeFieldManagerConflict, Field: ".metadata.labels." + name, Message: `conflict with "kubectl-label" using v1`,
			})
		}
	}
	return causes
}
