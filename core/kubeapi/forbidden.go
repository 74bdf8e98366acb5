package kubeapi

import (
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refused finds who wanted what in the message of a refusal, as the server's authorizer
// writes it (k8s.io/apiserver, endpoints/handlers/responsewriters).
var refused = regexp.MustCompile(`User "([^"\s]{1,512})" cannot ([a-z]{1,20}) `)

// Forbidden says what a refusal means and what to do: the account lacks the verb on
// the resource, in the namespace or, with "", in the cluster. The verb is for a
// server that does not name it. ok is false if err is another error.
func Forbidden(err error, verb, resource, namespace string) (text string, ok bool) {
	if !apierrors.IsForbidden(err) {
		return "", false
	}
	role, as, where := "a ClusterRole", "", ""
	if namespace != "" {
		role, where = "a Role in the namespace "+namespace, " --namespace="+namespace
	}
	who := "this agent's account"
	if found := refused.FindStringSubmatch(err.Error()); found != nil {
		who, as, verb = found[1], " --as="+found[1], found[2]
	}
	return fmt.Sprintf("the API server forbids it: %s needs the verb %s on %s (%s); check with `kubectl auth can-i %s %s%s%s`",
		who, verb, resource, role, verb, resource, where, as), true
}
