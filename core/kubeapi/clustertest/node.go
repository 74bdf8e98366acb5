package clustertest

import (
	"encoding/json"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Condition is a condition of the Node; the zero value if it has none of that type.
func (s *Server) Condition(kind corev1.NodeConditionType) corev1.NodeCondition {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// SetCondition adds a condition of the Node, or replaces the one of its type.
func (s *Server) SetCondition(condition corev1.NodeCondition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setCondition(condition)
}

func (s *Server) setCondition(condition corev1.NodeCondition) {
	s.conditions = slices.DeleteFunc(slices.Clone(s.conditions), func(c corev1.NodeCondition) bool { return c.Type == condition.Type })
	s.conditions = append(s.conditions, condition)
}

// getNode answers with the Node as a whole.
func (s *Server) getNode(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil || r.PathValue("name") != s.name {
		fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, r.PathValue("name")))
		return
	}
	answer(w, http.StatusOK, s.whole())
}

func (s *Server) whole() corev1.Node {
	return corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: s.node.ObjectMeta, Status: corev1.NodeStatus{Conditions: s.conditions},
	}
}

// patchStatus takes a strategic merge patch of conditions.
func (s *Server) patchStatus(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var patch corev1.Node
	switch err := json.NewDecoder(r.Body).Decode(&patch); {
	case s.node == nil || r.PathValue("name") != s.name:
		fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, r.PathValue("name")))
	case err != nil || r.Header.Get("Content-Type") != string(types.StrategicMergePatchType):
		fail(w, apierrors.NewBadRequest("a patch that is not understood"))
	default:
		for _, c := range patch.Status.Conditions {
			s.setCondition(c)
		}
		answer(w, http.StatusOK, s.whole())
	}
}
