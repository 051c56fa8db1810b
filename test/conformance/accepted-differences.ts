/** A place where the embedded API server knowingly differs from kube-apiserver, and the reason. */
interface AcceptedDifference {
  /** Matches the difference as the test prints it: method, path, and where in the answer. */
  readonly where: RegExp
  readonly why: string
}

/** All accepted differences. One that no longer exists fails the test, as a new difference does. */
export const acceptedDifferences: readonly AcceptedDifference[] = [
  {
    where: /^POST .*\/endpoints\.warning: real .*deprecated/,
    why: 'a refusal is not accompanied by the warning that the kind is deprecated',
  },
  {
    where: /\/customresourcedefinitions.*\.warning: real nothing, embedded "299 - \\"validation/,
    why: 'it says what is not enforced',
  },
  {
    where:
      /^PATCH .*\?fieldValidation=Strict\.body\.(?:message|details\.causes\[0\]\.message): .*strict decoding error/,
    why: 'the patch is named, instead of the whole patched object, or of the patch as Go prints it',
  },
  {
    where: /\/customresourcedefinitions\/widgets\.NS\.example\.com(?:\/status)?\.body\.metadata\.managedFields: real/,
    why: 'no controller writes the status, so none owns it',
  },
  {
    where: /^POST .*\/customresourcedefinitions\.body\.status\.(?:acceptedNames|conditions)/,
    why: 'a definition is established at once, instead of a little later',
  },
  {
    where: /^DELETE .*\/customresourcedefinitions\/(?:widgets|gadgets|things)\.(?:applied\.)?NS\.example\.com\.body/,
    why: 'a definition goes at once, and its objects with it, instead of when a finalizer has removed them',
  },
  {
    where: /^GET .*\/gadgets\.(?:body|contentType): real "(?:404 page not found|text\/plain)/,
    why: 'what no definition in a served group defines is refused with a Status instead of a text',
  },
  {
    where: /^GET \/api\.body\.items\[0\]\.versions\[0\]\.resources:/,
    why: 'a real server serves more kinds',
  },
  {
    where: /^GET \/api\.body\.serverAddressByClientCIDRs:/,
    why: 'the embedded server has no address to advertise; clients stay with the one that they have',
  },
  {
    where:
      /\/pods(?:\/one|\/one\/status)?\.body\.(?:rows\[\d\]\.object\.)?metadata\.managedFields\[\d\]\.fieldsV1\.f:spec/,
    why: 'defaults that only the scheduler and the kubelet read are not set',
  },
  {
    where: /\/pods(?:\/one|\/one\/status)?\.body\.spec\./,
    why: 'defaults that only the scheduler and the kubelet read are not set',
  },
  { where: /\/pods(?:\/one|\/one\/status)?\.body\.status\.qosClass:/, why: 'only the kubelet reads the QoS class' },
  {
    where: /\/pods\/one(?:\/status)?\.body\..*last(?:Probe|Transition)Time:/,
    why: "Go writes the empty times of a Pod's conditions as null; client libraries read null and nothing alike",
  },
  {
    where: /\/nodes(?:\/NS\/status)?\.body\.(?:spec\.taints|status\.(?:daemonEndpoints|nodeInfo)):/,
    why: 'no admission taints a Node, and the empty structs of its status are left out',
  },
  {
    where: /\/events.*(?:irstTimestamp|astTimestamp|deprecatedSource|eventTime): real (?:null|\{\}), embedded nothing/,
    why: 'Go writes the empty values of the older API as null and {}; client libraries read them and nothing alike',
  },
  {
    where: /^POST .*\/events\.body\.(?:message|details\.causes): .*name part must be non-empty/,
    why: 'of the two faults of an empty name only the first is reported',
  },
  {
    where: /\/servicecidrs\.body\.rows\[0\]\.object\.metadata\.managedFields/,
    why: 'nothing here bootstraps the ServiceCIDR; the test has created it',
  },
  {
    where: /\/ipaddresses\/10\.96\.0\.1\.body\.columnDefinitions:/,
    why: 'upstream sends the age, but declares no column for it',
  },
  {
    where: /^PATCH .*\/ipaddresses\/192\.0\.2\.77\.body\..*message:/,
    why: "the refused value is printed as JSON instead of as Go's struct",
  },
  {
    where: /^PATCH .*\/services\/web\.body\.metadata\.managedFields\[0\]\.fieldsV1\.f:spec\.f:internalTrafficPolicy:/,
    why: 'upstream drops the policy of an ExternalName after it has noted the owners',
  },
  {
    where: /^GET .*\/configmaps(?:\/a)?\.body\.message: real "you requested PartialObjectMetadata/,
    why: 'the kind is named instead of its Go type',
  },
  {
    where: /^GET .*\/configmaps\?watch=true&timeoutSeconds=1\.body: real "", embedded \[/,
    why: 'a watch that asks for a list of metadata gets the metadata of each object; upstream sends nothing',
  },
  {
    where: /\/widgets\/two\.warning: real .*prefer a domain-qualified finalizer name/,
    why: 'a finalizer without a domain is stored without a warning',
  },
  {
    where: /\/widgets\/scaled\.body\.metadata\.managedFields\[\d\]\.time: real nothing/,
    why: 'upstream leaves out when the replicas were scaled',
  },
  {
    where: /\/widgets\/(?:scaled|bare)(?:\/status)?\.body\.metadata\.managedFields: real/,
    why: 'upstream notes no owner of replicas that were scaled to 0',
  },
  {
    where: /\/widgets\/scaled\/scale\.body\.message: real "no kind is registered for the type v1\.Scale/,
    why: 'the fault of the body is named, which upstream cannot print',
  },
  {
    where: /\?continue=nonsense\.body\.message:/,
    why: "what Go's JSON decoder says of the token is left out",
  },
  {
    where: /^POST .*\/configmaps\.body\.message: real "(?:ConfigMap|Secret) in version/,
    why: "the words of Go's decoder, which differ by how it was generated",
  },
  {
    where: /^DELETE .*\/configmaps\/map\.body\.message: real "(?:json: cannot unmarshal|couldn't get version)/,
    why: "the words of Go's decoder, which name its types",
  },
  {
    where: /^PUT .*\/(?:configmaps\/map|widgets\/scaled\/scale)\.body\.message: real ".*StorageError/,
    why: "etcd's key and error code are left out",
  },
  {
    where:
      /^PATCH .*\/(?:configmaps\/map|services\/web)\.(?:status: real 422|body\.(?:code|reason|details|message): real .*(?:422|Invalid|FieldValueInvalid|invalid: patch))/,
    why: 'a patch that makes a field of a wrong type is refused with 400, as a body with it is',
  },
]
