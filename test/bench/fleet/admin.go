package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
)

// admin makes the administrator's requests: a client for every API is not needed.
type admin struct {
	host string
	http *http.Client
}

func (c *controlPlane) admin() (*admin, error) {
	config := c.config(adminToken)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &admin{config.Host, client}, nil
}

// do sends body as JSON, if it is not nil, and reads the answer into out, if that
// is not nil.
func (a *admin) do(ctx context.Context, method, path string, body, out any) error {
	payload, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if body == nil {
		payload = nil
	}
	request, err := http.NewRequestWithContext(ctx, method, a.host+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := a.http.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

const rbacPath = "/apis/rbac.authorization.k8s.io/v1/"

// account gives the agents the account and the rights that a file of manifests
// gives them, and returns the path of the account.
func (a *admin) account(ctx context.Context, manifests string) (path string, err error) {
	file, err := os.Open(manifests)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var object unstructured.Unstructured
		switch err := documents.Decode(&object.Object); {
		case errors.Is(err, io.EOF) && path == "":
			return "", fmt.Errorf("no ServiceAccount in %s", manifests)
		case errors.Is(err, io.EOF):
			return path, nil
		case err != nil:
			return "", fmt.Errorf("%s: %w", manifests, err)
		}
		at := map[string]string{
			"Namespace":          "/api/v1/namespaces",
			"ServiceAccount":     "/api/v1/namespaces/" + object.GetNamespace() + "/serviceaccounts",
			"ClusterRole":        rbacPath + "clusterroles",
			"ClusterRoleBinding": rbacPath + "clusterrolebindings",
			"Role":               rbacPath + "namespaces/" + object.GetNamespace() + "/roles",
			"RoleBinding":        rbacPath + "namespaces/" + object.GetNamespace() + "/rolebindings",
		}[object.GetKind()]
		if at == "" {
			continue
		}
		if err := a.do(ctx, http.MethodPost, at, object.Object, nil); err != nil {
			return "", err
		}
		if object.GetKind() == "ServiceAccount" {
			path = at + "/" + object.GetName()
		}
	}
}

// nodes makes a Node for each name, and returns a token of the account for each.
func (a *admin) nodes(ctx context.Context, names []string, account string) (tokens []string, err error) {
	tokens = make([]string, len(names))
	err = each(len(names), func(i int) error {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: names[i], Labels: labels("a")}}
		if err := a.do(ctx, http.MethodPost, "/api/v1/nodes", node, nil); err != nil {
			return err
		}
		var token authenticationv1.TokenRequest
		if err := a.do(ctx, http.MethodPost, account+"/token", map[string]any{}, &token); err != nil {
			return err
		}
		tokens[i] = token.Status.Token
		return nil
	})
	return tokens, err
}

// label labels a Node.
func (a *admin) label(ctx context.Context, node, value string) error {
	return a.do(ctx, http.MethodPatch, "/api/v1/nodes/"+node, map[string]any{"metadata": map[string]any{"labels": labels(value)}}, nil)
}

// each calls do for 0 to n-1, a few at a time.
func each(n int, do func(i int) error) error {
	next, errs := make(chan int), make([]error, n)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}
