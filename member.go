package lockstep

// MemberCommand is the argument by which a sidecar starts its own program as the
// process of an etcd member.
const MemberCommand = "etcd-member"
