// Package kubeconfig explains what is wrong with a kubeconfig.
package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/text"
)

// Explained returns the error of a kubeconfig without what is not for people: names of variables that nobody set, of source
// files and of types. path is "" if no file was named.
func Explained(path string, err error) error {
	var object struct {
		Kind string `json:"kind"`
	}
	if read, unread := os.ReadFile(path); path != "" && unread == nil { //nolint:gosec // the operator's own file
		if yaml.Unmarshal(read, &object) == nil && object.Kind != "" && object.Kind != "Config" {
			return fmt.Errorf("it is a %s, not a kubeconfig, which has kind: Config", object.Kind)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case !clientcmd.IsEmptyConfig(err):
		return errors.New(text.OfDecoding(errors.New(strings.TrimPrefix(err.Error(), "error loading config file "+strconv.Quote(path)+": "))))
	case path != "":
		return errors.New("it names no cluster and no context")
	}
	return errors.New("there is none: name the file with --kubeconfig, or in the variable KUBECONFIG")
}
