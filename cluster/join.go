package cluster

// joinSteps bring this node into the cluster of other nodes.
func joinSteps() []step {
	return []step{
		{"directory", openDirectory},
	}
}
