# A sweep as tests of ReFrame, one for each shard: reframe -c experiments/cluster/reframe_ecmv.py -r
# See README.md beside this file.
import csv
import os

import reframe as rfm
import reframe.utility.sanity as sn

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
SHARDS = int(os.environ.get('ECMV_SHARDS', '4'))


@rfm.simple_test
class EcmvSweep(rfm.RunOnlyRegressionTest):
    '''Every result of a shard is verified; how fast its fastest case was is a figure to follow over time.'''

    shard = parameter(range(SHARDS))
    config = variable(str, value='quick')  # -S config=FILE
    ecmv = variable(str, value=os.path.join(CHECKOUT, 'build', 'ecmv'))  # -S ecmv=FILE
    options = variable(str, value='')  # -S options='--filter raw'

    valid_systems = ['*']
    valid_prog_environs = ['*']
    num_tasks = 1
    exclusive_access = True

    @run_before('run')
    def set_command(self):
        self.executable = self.ecmv
        self.executable_opts = ['run', self.config, '--shard', f'{self.shard}/{SHARDS}', '-o', 'records.jsonl',
                                '--csv', 'cases.csv', *self.options.split()]
        self.keep_files = ['records.jsonl', 'cases.csv']
        self.postrun_cmds = ['echo "exit code $?"']

    # A shard may have no dataset.
    @sanity_function
    def verified(self):
        return sn.assert_found(r'^exit code 0$', self.stdout)

    @performance_function('elements/s')
    def fastest(self):
        try:
            with open(os.path.join(self.stagedir, 'cases.csv')) as file:
                speeds = [row['elements_per_s'] for row in csv.DictReader(file)]
        except FileNotFoundError:
            return 0.0
        return max((float(speed) for speed in speeds if speed), default=0.0)
