package clustertest

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// SetPod makes the Pod, or replaces it; it is on the server's Node unless it says
// another.
func (s *Server) SetPod(pod corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if pod.UID == "" {
		pod.UID = types.UID("uid-of-" + pod.Name)
	}
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = s.name
	}
	s.pods[pod.Namespace+"/"+pod.Name] = &pod
}

func (s *Server) getPod(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[r.PathValue("namespace")+"/"+r.PathValue("name")]
	if pod == nil {
		fail(w, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, r.PathValue("name")))
		return
	}
	answer(w, http.StatusOK, pod)
}
