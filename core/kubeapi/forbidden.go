package kubeapi

import (
	"fmt"
	"regexp"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refused matches the user and the verb in the message of a Forbidden error, as the server's
// authorizer writes it (k8s.io/apiserver, endpoints/handlers/responsewriters). Its bounds take 3 ms to compile, which no
// start needs.
var refused = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`User "([^"\s]{1,512})" cannot ([a-z]{1,20}) `)
})

// Forbidden returns a message for the operator about a Forbidden error: which account lacks
// which verb on the resource, in the namespace or, with "", in the cluster, and how to check
// it. verb is used if the error does not contain one. ok is false if err is another error.
func Forbidden(err error, verb, resource, namespace string) (text string, ok bool) {
	if !apierrors.IsForbidden(err) {
		return "", false
	}
	role, as, where := "a ClusterRole", "", ""
	if namespace != "" {
		role, where = "a Role in the namespace "+namespace, " --namespace="+namespace
	}
	who := "this agent's account"
	if found := refused().FindStringSubmatch(err.Error()); found != nil {
		who, as, verb = found[1], " --as="+found[1], found[2]
	}
	return fmt.Sprintf("the API server forbids it: %s needs the verb %s on %s (%s); check with `kubectl auth can-i %s %s%s%s`",
		who, verb, resource, role, verb, resource, where, as), true
}
