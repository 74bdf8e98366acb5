package kubeapi_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/accelmux/accelmux/core/kubeapi"
)

// Verifies that a refusal becomes a sentence with the account, if the server names
// it, and a command that can be run as it is.
func TestForbidden(t *testing.T) {
	refusal := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node-1", errors.New(why))
	}
	for name, c := range map[string]struct {
		err             error
		verb, resource  string
		namespace, want string
	}{
		"in the cluster": {
			refusal(`User "system:serviceaccount:a:b" cannot watch resource "nodes" in API group "" at the cluster scope`), "list", "nodes", "",
			"the API server forbids it: system:serviceaccount:a:b needs the verb watch on nodes (a ClusterRole); check with `kubectl auth can-i watch nodes --as=system:serviceaccount:a:b`",
		},
		"in a namespace, by a server that does not say whom": {
			refusal("no"), "create", "events", "default",
			"the API server forbids it: this agent's account needs the verb create on events (a Role in the namespace default); check with `kubectl auth can-i create events --namespace=default`",
		},
		"another error": {errors.New("forbidden"), "watch", "nodes", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if text, ok := kubeapi.Forbidden(c.err, c.verb, c.resource, c.namespace); text != c.want || ok != (c.want != "") {
				t.Errorf("got  %v %s\nwant %s", ok, text, c.want)
			}
		})
	}
}
