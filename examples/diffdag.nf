// A comparison per folder of data/, each with control.csv and treated.csv:
//   nextflow run diffdag.nf -resume
params.data = 'data'

process compare {
    tag { name }
    cpus 2
    publishDir 'answers', mode: 'copy'
    // 2: the tables or options cannot be used, and a retry would not help.
    errorStrategy { task.exitStatus == 2 ? 'finish' : 'retry' }
    maxRetries 2

    input:
    tuple val(name), path(first), path(second)

    output:
    path "${name}"

    script:
    """
    diffdag fit ${first} ${second} --resamples 200 --jobs ${task.cpus} --out '${name}'
    """
}

workflow {
    pairs = channel
        .fromPath("${params.data}/*/control.csv")
        .map { first ->
            tuple(first.parent.name, first, first.parent.resolve('treated.csv'))
        }
    compare(pairs)
}
